// Operations that only move elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <demi/symbolic_tensor.h>

namespace demi::ops {

struct ReshapeAttributes {
  Shape shape;  ///< at most one extent is unknown: it takes what is left
  friend bool operator==(const ReshapeAttributes&, const ReshapeAttributes&) = default;
};
std::string describe(const ReshapeAttributes& attributes);

struct TransposeAttributes {
  std::vector<int> permutation;  ///< output axis i is input axis permutation[i]
  friend bool operator==(const TransposeAttributes&, const TransposeAttributes&) = default;
};
std::string describe(const TransposeAttributes& attributes);

struct ConcatenateAttributes {
  int axis = -1;
  friend bool operator==(const ConcatenateAttributes&, const ConcatenateAttributes&) = default;
};
std::string describe(const ConcatenateAttributes& attributes);

/// Attributes of slice and of pad_slice, its gradient, which puts dy into zeros of `shape`.
struct SliceAttributes {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> size;
  Shape shape;  ///< of the sliced value; pad_slice only
  friend bool operator==(const SliceAttributes&, const SliceAttributes&) = default;
};
std::string describe(const SliceAttributes& attributes);

/// The same elements in row-major order under another shape. One extent may be -1: it takes what is
/// left. With an unknown batch it must be the first, and each element of the batch must fill whole
/// rows of the result.
[[nodiscard]] SymbolicTensor reshape(const SymbolicTensor& x, const Shape& shape);

/// Empty permutation: axes reversed.
[[nodiscard]] SymbolicTensor transpose(const SymbolicTensor& x, std::vector<int> permutation = {});

/// All inputs agree but along `axis`; dtypes are promoted.
[[nodiscard]] SymbolicTensor concatenate(const std::vector<SymbolicTensor>& inputs, int axis = -1);

/// Elements [begin[i], begin[i] + size[i]) of each axis; size -1: to the end.
[[nodiscard]] SymbolicTensor slice(const SymbolicTensor& x, std::vector<std::int64_t> begin,
                                   std::vector<std::int64_t> size);

}  // namespace demi::ops
