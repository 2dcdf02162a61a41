// Memory of a compiled model, known before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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
  bool recomputed = false;    ///< a forward call that runs again: CompileOptions::recompute
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

/// What CompileOptions::recompute costs.
struct RecomputedWork {
  std::size_t calls = 0;
  std::vector<std::string> layers;  ///< whose calls run again, in that order
  double forward_share = 0;         ///< estimated work of those calls / that of the forward half
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
  RecomputedWork recomputed;

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

/// The memory that the models of this process share on each device.
namespace memory {

/// How demi takes memory from a device.
enum class Mode {
  kExact,     ///< what models need when they need it, given back when they go
  kGrow,      ///< the same, but kept for the next model
  kFraction,  ///< a share of the device at the first need, and never more
};

struct Options {
  Mode mode = Mode::kExact;
  double fraction = 0;          ///< of the device's memory, in (0, 1]; for Mode::kFraction
  std::size_t limit_bytes = 0;  ///< never take more than this; 0: no limit
};

/// For all models of the process on `device`, as compile() takes it; the mode only before they use
/// its memory, the limit at any time. Throws std::invalid_argument "[memory] …" with the numbers
/// otherwise, and as set_device for unknown devices.
void configure(std::string_view device, const Options& options);

/// Bytes on one device, by who counts them.
struct Stats {
  std::string device;
  std::size_t planned = 0;        ///< what the compiled steps of living models need by their plans
  std::size_t in_use = 0;         ///< handed out to models now
  std::size_t peak = 0;           ///< the highest `in_use` since the start or reset_peak
  std::size_t reserved = 0;       ///< taken from the device: in_use, rounded up, and what is kept
  std::size_t arena_planned = 0;  ///< of `planned`: buffers and workspace of the steps
  /// The same as measured: the highest end of the ranges that the kernels which ran were given.
  std::size_t arena_peak = 0;
  std::size_t process = 0;      ///< all that the process holds on the device; 0: not known
  std::string process_source;   ///< who says so, or why nobody does
  std::size_t device_used = 0;  ///< by all processes
  std::size_t device_free = 0;
  std::size_t device_total = 0;
  /// `in_use` by purpose: "arena", "workspace", "variables", "input buffers", …
  std::vector<std::pair<std::string, std::size_t>> held;
};

/// Throws as set_device for unknown devices and DeviceError for missing ones. Waits for nothing.
[[nodiscard]] Stats stats(std::string_view device);

/// Lets Stats::peak of the device begin anew.
void reset_peak(std::string_view device);

/// The numbers line by line from what plans say to what the device says, with what lies between.
[[nodiscard]] std::string to_string(const Stats& stats);

}  // namespace memory
}  // namespace demi
