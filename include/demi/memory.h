// Memory of a compiled model, known before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <demi/dataset.h>

namespace demi {

/// Which program of a model.
enum class StepMode { kTrain, kEvaluate, kPredict };

/// Bytes of one step by what they are for. The categories inside the arena are each a peak over the
/// step, so where they take turns in one place they add up to more than `arena`; `total` is what
/// demi allocates on the device: arena, weights, optimizer, constants, step state, input buffers,
/// data sets, and on a GPU the compute copies, which there lie beside the arena. What libraries
/// take besides is MemoryPlan::overhead.
struct PlannedBytes {
  std::size_t activations = 0;     ///< forward results kept for the backward half
  std::size_t weights = 0;         ///< all variables of the model's layers, the master copies
  std::size_t compute_copies = 0;  ///< weights in the compute dtype
  std::size_t gradients = 0;
  std::size_t optimizer = 0;    ///< slots: moments, gradient sums, averages
  std::size_t temporaries = 0;  ///< anything else that lives for part of a step
  std::size_t workspace = 0;    ///< scratch memory of kernels
  std::size_t arena = 0;        ///< activations to gradients, temporaries and workspace as laid out
  std::size_t input_buffers = 0;  ///< two sets: one is filled while the other is computed on
  std::size_t data_sets = 0;      ///< arrays that fit keeps on the device, see CompileOptions
  std::size_t constants = 0;
  std::size_t step_state = 0;  ///< counters, loss scale, learning rate, metric sums
  std::size_t total = 0;
};

/// What the range of an arena holds.
enum class BufferKind { kActivation, kTemporary, kGradient, kComputeCopy };

/// "activation", "temporary", "gradient", "compute copy".
[[nodiscard]] const char* to_string(BufferKind kind);

/// One range of the arena and the time it is in use.
struct PlannedBuffer {
  std::string layer;  ///< path of the layer that writes it first, "" for what belongs to none
  std::string op;     ///< that does so
  std::string type;   ///< of that result, "float16[128, 13, 13, 32]"
  BufferKind kind = BufferKind::kTemporary;
  std::size_t bytes = 0;  ///< a multiple of the alignment
  std::size_t offset = 0;
  std::size_t first_call = 0;  ///< indices into MemoryPlan::timeline, both included
  std::size_t last_call = 0;
  /// Further results that share the bytes, in order: "relu of conv2d, in place", "reshape of
  /// flatten, a view".
  std::vector<std::string> aliases;
  std::size_t aliased_bytes = 0;  ///< what those would take on their own
};

/// The arena while one call runs.
struct MemoryMoment {
  std::string layer;
  std::string phase;  ///< "forward", "backward" or "update"
  std::string op;
  std::size_t activations = 0;
  std::size_t compute_copies = 0;
  std::size_t gradients = 0;
  std::size_t temporaries = 0;
  std::size_t workspace = 0;  ///< of this call
  /// All of the buffers; at most PlannedBytes::arena less its workspace.
  [[nodiscard]] std::size_t live() const {
    return activations + compute_copies + gradients + temporaries;
  }
};

/// Bytes by the layer that they belong to. Activations and temporaries are sums over the step.
struct LayerBytes {
  std::string layer;  ///< path; "" for losses, metrics and counters
  std::size_t weights = 0;
  std::size_t compute_copies = 0;
  std::size_t gradients = 0;
  std::size_t optimizer = 0;
  std::size_t activations = 0;
  std::size_t temporaries = 0;
  std::size_t workspace = 0;  ///< the largest of its calls
};

/// Memory of the process on the device that is not demi's: program, context, libraries.
struct MemoryOverhead {
  std::size_t bytes = 0;
  bool measured = false;  ///< else an estimate
  std::string source;     ///< how it was found
};

/// Where the memory of one step goes.
struct MemoryPlan {
  std::string device;  ///< "h200", "cpu", "cuda:0"
  std::string policy;  ///< that of most layers
  StepMode mode = StepMode::kTrain;
  std::int64_t batch_size = 0;
  PlannedBytes bytes;
  MemoryOverhead overhead;
  std::vector<LayerBytes> layers;      ///< in the order of the model
  std::vector<PlannedBuffer> buffers;  ///< in the order of their first use
  std::vector<MemoryMoment> timeline;  ///< one for each call, in order of execution

  /// The call during which the most buffer bytes are live. The arena is larger where its buffers
  /// could not be laid out without gaps.
  [[nodiscard]] std::size_t peak_call() const;
  /// What is live during that call, the largest first.
  [[nodiscard]] std::vector<PlannedBuffer> held_at(std::size_t call) const;
  /// Bytes of results that were written over others or are views of them.
  [[nodiscard]] std::size_t aliased_bytes() const;
};

struct MemoryPlanOptions {
  /// Plan as if the layers had been built under this policy; layers with a dtype other than most
  /// keep theirs. Empty: as they are.
  std::string policy = "";
  /// A GPU that need not be there, as in PlanOptions. Empty: the device of compile().
  std::string device_profile = "";
  StepMode mode = StepMode::kTrain;
  /// How samples are stored: inputs are copied to the device in their stored dtype. Without it they
  /// are float32 (integers where the model takes integers), and labels int32.
  Dataset data = {};
};

/// The report: categories, layers, the peak and who holds it.
[[nodiscard]] std::string to_string(const MemoryPlan& plan);
/// A line for each call: what is live while it runs.
[[nodiscard]] std::string format_timeline(const MemoryPlan& plan);

}  // namespace demi
