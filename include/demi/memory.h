// Memory of a compiled model, known before anything is allocated.
#pragma once

#include <cstddef>

namespace demi {

/// Bytes of one training step by what they are for. The categories inside the arena are each a peak
/// over the step, so where they take turns in one place they add up to more than `arena`; `total`
/// is what the process allocates: arena, weights, optimizer, constants and input buffers.
struct PlannedBytes {
  std::size_t activations = 0;     ///< forward results kept for the backward half
  std::size_t weights = 0;         ///< all variables of the model's layers
  std::size_t compute_copies = 0;  ///< weights in the compute dtype
  std::size_t gradients = 0;
  std::size_t optimizer = 0;    ///< slots, counters, loss scale
  std::size_t temporaries = 0;  ///< anything else that lives for part of a step
  std::size_t workspace = 0;    ///< scratch memory of kernels
  std::size_t arena = 0;        ///< activations to gradients, temporaries and workspace as laid out
  std::size_t input_buffers = 0;
  std::size_t total = 0;
};

}  // namespace demi
