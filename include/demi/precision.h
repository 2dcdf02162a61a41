// In which precision every operation of a step computes, and what that costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <demi/dtype.h>

namespace demi {

/// One operation of a step.
struct OpPrecision {
  std::string layer;     ///< path, "" for what belongs to none
  std::string phase;     ///< "forward", "backward" or "update"
  std::string op;        ///< "conv2d_backward_filter"
  DType requested{};     ///< compute dtype of the layer's policy
  DType computed{};      ///< widest floating operand that is read; requested where none is floating
  DType stored{};        ///< of the first result
  DType accumulation{};  ///< of sums inside the kernel
  std::string kernel;    ///< implementation and engine: "cudnn: engine 41", "cublaslt", "gemm"
  bool multiplies = false;  ///< a matrix product or a convolution
  /// None: a library chooses on the device, which is not there.
  std::optional<bool> uses_tensor_cores = false;
  /// Why `multiplies` runs without them, or why that is not known; "" where it uses them or does
  /// not multiply.
  std::string without_tensor_cores;
  /// Why it computes in float32 although the model computes in 16 bits; "" where it does not.
  std::string fallback;
  std::size_t extra_bytes = 0;  ///< read and written more than with 16-bit operands, of a fallback
  /// Estimates from the device's peaks, in seconds: the larger of operations ÷ peak and bytes ÷
  /// bandwidth, and how much of it 16 bits would save; with tensor cores where that is not known.
  /// None where no peaks are known (CPU).
  std::optional<double> seconds;
  std::optional<double> extra_seconds;
};

/// A training step, operation by operation in order of execution.
struct PrecisionPlan {
  std::string device;  ///< "h200", "cpu", "cuda:0"
  std::string policy;  ///< that most layers have
  std::int64_t batch_size = 0;
  DType narrow = DType::kFloat32;  ///< 16-bit dtype the model computes in; float32: none
  std::vector<OpPrecision> ops;
  std::vector<std::string> hints;  ///< what to change, the weightiest first; may be empty
};

/// A table of the operations, the float32 fallbacks with their reasons and cost, and the hints; up
/// to 100 columns wide.
[[nodiscard]] std::string to_string(const PrecisionPlan& plan);

}  // namespace demi
