// What a training step will do and need on a device, which need not be there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <demi/dataset.h>
#include <demi/memory.h>
#include <demi/model.h>
#include <demi/training.h>

namespace demi {

/// One call of a library or start of a kernel of our own.
struct PlannedCall {
  std::string layer;   ///< path, "" for what belongs to none
  std::string phase;   ///< "forward", "backward" or "update"
  std::string op;      ///< "conv2d_backward_filter {strides=[1, 1], …}"
  std::string kernel;  ///< which implementation: library, engine, epilogue, tensor cores
  std::vector<std::string> inputs;  ///< dtype and shape of every operand: "float16[128, 10]"
  std::vector<std::string> outputs;
  std::size_t workspace_bytes = 0;
  /// Candidates that came before this one, with the reason why each was refused.
  std::vector<std::string> refused;
};

struct PlannedStep {
  std::string device;              ///< "h200", "cpu", "cuda:0"
  std::vector<PlannedCall> calls;  ///< in order of execution
  PlannedBytes bytes;
};

struct PlanOptions {
  std::int64_t batch_size = 32;
  /// A GPU that need not be there, by name: "t4", "a100", "rtx4090", "h100", "h200", "b200". Empty:
  /// the device of the compile options.
  std::string device_profile = "";
};

/// The calls and the memory of one training step of `model`, compiled as `options` say, on samples
/// like those of `data` (their number and values do not matter). Runs nothing on the device. Throws
/// std::invalid_argument for options or data that do not fit the model and for unknown profiles,
/// DeviceError if the device or, for a profile, the CUDA plugin is missing.
[[nodiscard]] PlannedStep plan_training_step(const Model& model, const Dataset& data,
                                             const CompileOptions& options,
                                             const PlanOptions& plan_options = {});

}  // namespace demi
