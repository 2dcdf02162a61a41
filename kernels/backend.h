// Backend: one device, as the compiler and the runtime see it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "src/core/device_memory.h"

namespace demi {

/// What a backend has kernels for beyond the plain ops; passes form only these.
struct Capabilities {
  bool conv2d_bias_activation = false;  ///< bias and relu in conv2d's epilogue
  bool conv2d_max_pool = false;         ///< max_pool2d in conv2d's epilogue, forward
  bool conv2d_backward_pooled = false;  ///< gradients straight from those of a max-pooling behind
  bool matmul_bias_activation = false;
  bool batch_norm_relu = false;               ///< relu inside batch_norm, forward and backward
  bool max_pool_relu = false;                 ///< relu inside max_pool2d, forward and backward
  bool max_pool_bias_gradient = false;        ///< the sum over positions in max_pool2d_backward
  bool max_pool_without_index = false;        ///< Pool2DAttributes::from_image
  bool max_pool_gradient_from_image = false;  ///< prefers that form where a gradient is taken too
  bool matmul_bias_gradient = false;          ///< the sum over rows in the product with a gradient
  bool matmul_relu_backward = false;          ///< relu_backward in matmul's epilogue
  bool mean_sparse_cross_entropy = false;     ///< mean loss, accuracy and gradient in one
  bool weight_copies = false;  ///< updates of weights write copies of them in other dtypes
  bool ohwi_filters = false;   ///< convolutions want filters [co, kh, kw, ci / groups]
};

/// A kernel with the addresses it will run on.
struct Launch {
  Kernel* kernel = nullptr;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
};

/// One set of input buffers, filled by the host and read by kernels. The host fills host(), then
/// upload() makes the contents visible to all launches queued after it, and release(), called when
/// those launches are queued, allows the next upload to replace them once they are done.
class InputSet {
 public:
  virtual ~InputSet() = default;
  /// Host memory of buffer `index`; waits until an upload in flight no longer reads it. May be
  /// called from a thread of its own while another one runs the device.
  [[nodiscard]] virtual void* host(std::size_t index) = 0;
  /// The device address of buffer `index`.
  [[nodiscard]] virtual void* address(std::size_t index) const = 0;
  virtual void upload() = 0;
  virtual void release() = 0;
};

/// Copies of one device allocation, brought to the host without waiting for them.
class Readback {
 public:
  virtual ~Readback() = default;
  /// Queues a copy behind all work queued so far. Not while one is under way.
  virtual void start() = 0;
  /// Whether the copy has arrived. Does not wait.
  [[nodiscard]] virtual bool is_ready() = 0;
  /// The bytes of the allocation as of the start of the last copy that has arrived.
  [[nodiscard]] virtual const std::byte* bytes() const = 0;
};

/// Where buffers of these sizes begin; the last entry is the end of all.
[[nodiscard]] std::vector<std::size_t> input_offsets(const std::vector<std::size_t>& bytes);

/// Runs a fixed sequence of launches many times. A GPU backend captures it once and replays it.
class LaunchSequence {
 public:
  virtual ~LaunchSequence() = default;
  /// Queues all launches in order; returns when they are queued (CPU: done).
  virtual void run() = 0;
};

/// Memory of a whole device, whoever uses it.
struct DeviceMemoryInfo {
  std::size_t total = 0;
  std::size_t free = 0;    ///< 0 for a profile
  std::string pci_bus_id;  ///< "0000:3b:00.0", by which NVML knows a GPU; empty for others
};

/// What a device could do at most, from its clocks and widths: estimates of time are made of it.
struct DevicePeaks {
  double bytes_per_second = 0;  ///< of its memory
  double float32_flops = 0;     ///< operations per second, two of them a multiply-add
  /// With tensor cores; 0: it has none for that dtype.
  double tf32_flops = 0;
  double float16_flops = 0;
  double bfloat16_flops = 0;
  bool allows_tf32 = false;    ///< demi::allow_tf32
  int compute_capability = 0;  ///< 10 · major + minor
};

/// Allocates so many bytes, aligned to 256.
using Allocator = std::function<std::shared_ptr<DeviceMemory>(std::size_t bytes)>;

/// Input buffers begin at multiples of this many bytes in one allocation.
inline constexpr std::size_t kInputAlignment = 256;

/// Not thread safe: one model trains on one backend from one thread.
class Backend {
 public:
  virtual ~Backend() = default;

  /// "cpu", "cuda:0".
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  [[nodiscard]] virtual DeviceMemoryInfo memory_info() const = 0;

  /// None where they are not known, as of a CPU.
  [[nodiscard]] virtual std::optional<DevicePeaks> peaks() const { return std::nullopt; }

  /// Zero-filled, aligned to at least 256 bytes. `purpose` names it in OutOfMemory messages.
  [[nodiscard]] virtual std::shared_ptr<DeviceMemory> allocate(std::size_t bytes,
                                                               const std::string& purpose) = 0;

  /// Buffers of these sizes in one allocation by `allocate`, each aligned to kInputAlignment.
  [[nodiscard]] virtual std::unique_ptr<InputSet> allocate_inputs(
      const std::vector<std::size_t>& bytes, const Allocator& allocate) = 0;

  /// Bytes that arrays of a data set may take on the device now, so that steps gather their samples
  /// there; 0 where this would gain nothing.
  [[nodiscard]] virtual std::size_t room_for_data() const { return 0; }

  /// `memory` is of this backend and is kept.
  [[nodiscard]] virtual std::unique_ptr<Readback> make_readback(
      std::shared_ptr<const DeviceMemory> memory) = 0;

  /// The first candidate of the op that accepts the request, best first.
  [[nodiscard]] virtual KernelSelection select(const KernelRequest& request) = 0;

  /// `launches` is kept; the kernels and memory it names must outlive the sequence.
  [[nodiscard]] virtual std::unique_ptr<LaunchSequence> sequence(std::vector<Launch> launches) = 0;

  /// For each kernel of a sequence, Kernel::launches() of it, or 0 if the sequence makes it part of
  /// one before it.
  [[nodiscard]] virtual std::vector<int> launch_counts(std::span<Kernel* const> kernels) const {
    std::vector<int> counts;
    for (const Kernel* kernel : kernels) counts.push_back(kernel->launches());
    return counts;
  }

  /// Waits for all queued work.
  virtual void synchronize() = 0;
};

/// The CPU with `threads` threads (0: default_thread_count()).
[[nodiscard]] std::shared_ptr<Backend> make_cpu_backend(int threads = 0);

/// The device of that name: "cpu", "cuda:N" ("cuda" and "gpu" mean "cuda:0"), or "auto" for the
/// first GPU if there is one that can be used and else the CPU. Test builds also know "cuda-emu",
/// an emulated GPU. Throws std::invalid_argument for any other name and for a negative number of
/// threads, DeviceError saying what is missing if there is no such device.
[[nodiscard]] std::shared_ptr<Backend> make_backend(std::string_view device, int threads = 0);

/// A GPU that need not exist, by the name of its profile ("h200"): plans can be made for it, but
/// nothing can be allocated or run. Throws std::invalid_argument naming the profiles there are,
/// DeviceError if the CUDA plugin cannot be loaded.
[[nodiscard]] std::shared_ptr<Backend> make_planning_backend(std::string_view profile);

}  // namespace demi
