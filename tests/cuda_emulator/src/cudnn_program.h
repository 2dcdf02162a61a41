// An operation graph as the emulator executes it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda_emulator/src/convolution.h"
#include "tests/cuda_emulator/src/cudnn_records.h"
#include "tests/cuda_emulator/src/cudnn_tensor.h"

namespace cuda_emulator {

struct GraphTensor : StridedTensor {
  std::int64_t id;
  std::int64_t alignment;  ///< bytes
  bool is_virtual;
};

struct GraphOperation {
  cudnnBackendDescriptorType_t type;
  /// The operands in the order of the convolution functions, x and filter, dy and filter, x and
  /// dy; of pointwise operations x and, if there are two, b.
  std::vector<std::int64_t> inputs;
  std::int64_t output;
  double alpha, beta;  ///< of pointwise operations the factors of x and b
  Convolution convolution;
  cudnnPointwiseMode_t mode;
  bool propagates_nan;
};

struct Program {
  std::map<std::int64_t, GraphTensor> tensors;  ///< by unique id
  std::vector<GraphOperation> operations;       ///< each after those whose results it reads
  bool is_double = false;                       ///< else computed in float

  /// Whether an operation writes the tensor.
  [[nodiscard]] bool is_output(std::int64_t id) const;
};

/// Reads what was recorded of a finalized operation graph. Fatal for what the emulator does not
/// execute: other operations than 2-D convolutions and pointwise ones, integers, sums in half.
[[nodiscard]] Program read_program(const Record& graph);

/// Runs it. `addresses` holds those of the tensors that are not virtual. With `tensor_cores`
/// float32 operands of convolutions are rounded to TF32.
void run_program(const Program& program, const std::map<std::int64_t, void*>& addresses,
                 bool tensor_cores);

}  // namespace cuda_emulator
