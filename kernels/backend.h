// Backend: one device, as the compiler and the runtime see it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "src/core/device_memory.h"

namespace demi {

/// Fusions a backend has kernels for; the fuse pass forms only these.
struct Capabilities {
  bool conv2d_bias_activation = false;  ///< bias and relu in conv2d's epilogue
  bool conv2d_max_pool = false;         ///< max_pool2d in conv2d's epilogue, forward
  bool conv2d_backward_pooled = false;  ///< gradients straight from those of a max-pooling behind
  bool matmul_bias_activation = false;
  bool batch_norm_relu = false;  ///< relu inside batch_norm, forward and backward
  bool max_pool_relu = false;    ///< relu inside max_pool2d, forward and backward
};

/// A kernel with the addresses it will run on.
struct Launch {
  Kernel* kernel = nullptr;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
};

/// Runs a fixed sequence of launches many times. A GPU backend captures it once and replays it.
class LaunchSequence {
 public:
  virtual ~LaunchSequence() = default;
  /// Queues all launches in order; returns when they are queued (CPU: done).
  virtual void run() = 0;
};

/// Not thread safe: one model trains on one backend from one thread.
class Backend {
 public:
  virtual ~Backend() = default;

  /// "cpu", "cuda:0".
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  /// Zero-filled, aligned to at least 64 bytes. `purpose` names it in OutOfMemory messages.
  [[nodiscard]] virtual std::shared_ptr<DeviceMemory> allocate(std::size_t bytes,
                                                               const std::string& purpose) = 0;

  /// The first candidate of the op that accepts the request, best first.
  [[nodiscard]] virtual KernelSelection select(const KernelRequest& request) = 0;

  /// `launches` is kept; the kernels and memory it names must outlive the sequence.
  [[nodiscard]] virtual std::unique_ptr<LaunchSequence> sequence(std::vector<Launch> launches) = 0;

  /// Waits for all queued work.
  virtual void synchronize() = 0;
};

/// The CPU with `threads` threads (0: default_thread_count()).
[[nodiscard]] std::shared_ptr<Backend> make_cpu_backend(int threads = 0);

/// The device of that name: "cpu", "gpu", or "auto" for a GPU if there is one and else the CPU.
/// Throws std::invalid_argument for any other name and for a negative number of threads,
/// DeviceError saying what is missing if there is no such device.
[[nodiscard]] std::shared_ptr<Backend> make_backend(std::string_view device, int threads = 0);

}  // namespace demi
