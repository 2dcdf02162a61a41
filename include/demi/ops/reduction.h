// Reductions over axes.
#pragma once

#include <string>
#include <vector>

#include <demi/symbolic_tensor.h>

namespace demi::ops {

/// Attributes of sum, mean, max and argmax; axes are normalised, ascending, without repeats.
struct ReductionAttributes {
  std::vector<int> axes;
  bool keepdims = false;
  friend bool operator==(const ReductionAttributes&, const ReductionAttributes&) = default;
};
std::string describe(const ReductionAttributes& attributes);

/// Axes may be negative; an empty list means all. Sums are kept in float32 (float64, int64 for
/// integers) in an order that does not depend on the number of threads. sum of a 16-bit tensor
/// gives float32, sum of bool or integers int64.
[[nodiscard]] SymbolicTensor sum(const SymbolicTensor& x, std::vector<int> axes = {},
                                 bool keepdims = false);
/// Gives the dtype of x (accumulated in float32), float32 for integers and bool. The mean of no
/// elements is 0.
[[nodiscard]] SymbolicTensor mean(const SymbolicTensor& x, std::vector<int> axes = {},
                                  bool keepdims = false);
/// NaN if any element is. On ties the gradient goes in equal parts to all maxima. Throws
/// std::invalid_argument for an empty axis.
[[nodiscard]] SymbolicTensor max(const SymbolicTensor& x, std::vector<int> axes = {},
                                 bool keepdims = false);
/// int32 index of the first maximum along `axis`, which is removed.
[[nodiscard]] SymbolicTensor argmax(const SymbolicTensor& x, int axis = -1);

}  // namespace demi::ops
