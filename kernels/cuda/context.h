// Context: one GPU, or the description of one, with what kernels share: stream, library handles,
// options, counters.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "kernels/cuda/ledger.h"
#include "kernels/gpu_plugin.h"

namespace demi::cuda {

namespace cudnn {
class TunedEngines;
}

/// What decides between kernels; read from a device or from a profile (profiles/*.json).
struct DeviceProperties {
  std::string name;
  int compute_capability = 0;  ///< 10 · major + minor: 75, 90
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  double clock_hz = 0;                     ///< of the multiprocessors, at most
  double memory_bytes_per_second = 0;      ///< at most; 0: not known
  std::string pci_bus_id;                  ///< "0000:3b:00.0"; empty of a profile
  std::size_t shared_bytes_per_block = 0;  ///< without opting in to more
  /// The same as cuDNN's deviceless planning takes it (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
  std::string cudnn_json;

  [[nodiscard]] bool supports_bfloat16() const { return compute_capability >= 80; }
};

struct Options {
  Preference preference = Preference::kFastest;  ///< between own kernels and calls of cuDNN
  bool allow_tf32 = false;    ///< float32 products in TF32 (10 bits) on tensor cores
  bool deterministic = true;  ///< no engine whose result depends on timing
  bool autotune = true;       ///< measure candidates on the device, where there is one
  std::size_t workspace_limit = std::size_t{32} << 20;  ///< bytes per kernel
};

class Context {
 public:
  /// The GPU of that ordinal, made current. Throws DeviceError saying what is missing.
  Context(int ordinal, Options options);
  /// A GPU that need not exist: kernels can be prepared, not run.
  Context(DeviceProperties properties, Options options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] bool has_device() const { return stream_ != nullptr; }
  [[nodiscard]] const DeviceProperties& properties() const { return properties_; }
  [[nodiscard]] const Options& options() const { return options_; }

  /// The stream of all kernels. Null without a device.
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  /// Created at the first call, bound to stream(). Need a device.
  [[nodiscard]] cudnnHandle_t cudnn();
  [[nodiscard]] cublasLtHandle_t cublas_lt();

  /// A device word that is 0 whenever no kernel runs, for "the last block to finish goes on": the
  /// kernel that is given it leaves it 0. Null without a device. Valid as long as the context.
  [[nodiscard]] unsigned* block_counter();

  /// What was measured of cuDNN's engines on this device.
  [[nodiscard]] cudnn::TunedEngines& tuned_engines() { return *tuned_engines_; }

  [[nodiscard]] Ledger& ledger() { return ledger_; }

 private:
  struct CounterPool;

  DeviceProperties properties_;
  Options options_;
  int ordinal_ = 0;
  cudaStream_t stream_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
  cublasLtHandle_t cublas_lt_ = nullptr;
  std::unique_ptr<CounterPool> counters_;
  std::unique_ptr<cudnn::TunedEngines> tuned_engines_;
  Ledger ledger_;
};

}  // namespace demi::cuda
