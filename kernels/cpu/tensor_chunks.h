// The elements of a list of tensors cut into chunks, for kernels that take all tensors of a model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "src/core/tensor_type.h"

namespace demi::cpu {

struct TensorChunk {
  std::size_t tensor = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Chunks of at most `grain` elements, in order. See Note [Deterministic partitioning].
inline std::vector<TensorChunk> chunks_of(std::span<const TensorType> tensors, std::int64_t grain) {
  std::vector<TensorChunk> chunks;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const std::int64_t elements = tensors[tensor].shape.elements();
    for (std::int64_t first = 0; first < elements; first += grain) {
      chunks.push_back({tensor, first, std::min(grain, elements - first)});
    }
  }
  return chunks;
}

}  // namespace demi::cpu
