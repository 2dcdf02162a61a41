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

/// One operation of a step.
struct PlannedCall {
  std::string layer;   ///< path, "" for what belongs to none
  std::string phase;   ///< "forward", "backward" or "update"
  std::string op;      ///< "conv2d_backward_filter {strides=[1, 1], …}"
  std::string kernel;  ///< which implementation: library, engine, epilogue, tensor cores
  std::vector<std::string> inputs;  ///< dtype and shape of every operand: "float16[128, 10]"
  std::vector<std::string> outputs;
  std::size_t workspace_bytes = 0;
  /// Calls of libraries and starts of kernels of our own that it takes; 0 if it is part of those of
  /// an operation before it.
  int launches = 0;
  /// Candidates that came before this one, with the reason why each was refused.
  std::vector<std::string> refused;
};

struct PlannedStep {
  std::string device;              ///< "h200", "cpu", "cuda:0"
  std::vector<PlannedCall> calls;  ///< in order of execution
  MemoryPlan memory;               ///< its timeline has one moment for each call

  /// Launches of the whole step. On a GPU they are replayed as one graph.
  [[nodiscard]] int launches() const;
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

/// No plan is made for larger batches when one is searched for.
inline constexpr std::int64_t kMaxBatchSize = std::int64_t{1} << 20;

/// The largest batch size whose planned total fits into `limit_bytes`: the next one does not, but
/// for kMaxBatchSize itself. `model` must be compiled. Throws std::invalid_argument
/// "[max_batch_size] …" with the numbers if not even a batch of one sample fits, and like
/// Model::memory_plan.
[[nodiscard]] std::int64_t max_batch_size(const Model& model, std::size_t limit_bytes,
                                          const MemoryPlanOptions& options = {});

/// A category of memory under two policies.
struct ComparedBytes {
  std::string category;
  std::size_t first = 0;
  std::size_t second = 0;
  std::string reason;  ///< why it shrinks, grows or stays
};

/// The same step under two policies.
struct MemoryComparison {
  MemoryPlan first;
  MemoryPlan second;
  std::vector<ComparedBytes> categories;
  /// The smallest batch size whose total is smaller under the second policy; 0 if there is none up
  /// to kMaxBatchSize.
  std::int64_t break_even = 0;
};

/// Plans a step of `model`, which must be compiled, under `first_policy` and, if it differs, under
/// `second_policy`; `options.policy` is ignored. Throws std::invalid_argument like
/// Model::memory_plan.
[[nodiscard]] MemoryComparison compare_memory(const Model& model, std::int64_t batch_size,
                                              const std::string& first_policy = "float32",
                                              const std::string& second_policy = "mixed_float16",
                                              const MemoryPlanOptions& options = {});

/// The two plans side by side with the reasons, and from which batch size the second pays.
[[nodiscard]] std::string to_string(const MemoryComparison& comparison);

}  // namespace demi
