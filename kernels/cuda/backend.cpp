// The CUDA backend: kernels of kernels/cuda on one GPU, and the entry of the plugin.

#include "kernels/backend.h"

#include <utility>

#include <demi/error.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/device_properties.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/scalars.h"
#include "kernels/cuda/sequence.h"
#include "kernels/gpu_plugin.h"

namespace demi {
namespace cuda {

#define OP(family) void register_##family##_kernels(Registry& registry);
#include "src/ops/ops.def"
#undef OP

namespace {

const Registry& kernel_registry() {
  static const Registry registry = [] {
    Registry r;
#define OP(family) register_##family##_kernels(r);
#include "src/ops/ops.def"
#undef OP
    return r;
  }();
  return registry;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::string name, std::shared_ptr<Context> context)
      : name_(std::move(name)), context_(std::move(context)) {}

  [[nodiscard]] std::string name() const override { return name_; }

  [[nodiscard]] Capabilities capabilities() const override {
    // cuDNN's pooling takes its gradient from the image, with nothing fused.
    const bool pools_with_cudnn = context_->options().preference == Preference::kCudnn;
    return {.conv2d_bias_activation = true,
            .matmul_bias_activation = true,
            .batch_norm_relu = true,
            .max_pool_relu = !pools_with_cudnn,
            .max_pool_bias_gradient = !pools_with_cudnn,
            .max_pool_without_index = true,
            .max_pool_gradient_from_image = pools_with_cudnn,
            .matmul_bias_gradient = true,
            .matmul_relu_backward = true,
            .mean_sparse_cross_entropy = true,
            .weight_copies = true,
            .ohwi_filters = true};
  }

  [[nodiscard]] DeviceMemoryInfo memory_info() const override {
    const DeviceProperties& properties = context_->properties();
    DeviceMemoryInfo info{
        .total = properties.memory_bytes, .free = 0, .pci_bus_id = properties.pci_bus_id};
    if (context_->has_device()) DEMI_CUDA_CHECK(cudaMemGetInfo(&info.free, &info.total));
    return info;
  }

  [[nodiscard]] std::optional<DevicePeaks> peaks() const override {
    return peaks_of(context_->properties(), context_->options().allow_tf32);
  }

  [[nodiscard]] std::shared_ptr<DeviceMemory> allocate(std::size_t bytes,
                                                       const std::string& purpose) override {
    require_device();
    return allocate_device_memory(context_, name_, bytes, purpose);
  }

  [[nodiscard]] std::unique_ptr<InputSet> allocate_inputs(const std::vector<std::size_t>& bytes,
                                                          const Allocator& allocate) override {
    require_device();
    return allocate_device_inputs(context_, bytes, allocate);
  }

  /// Half of what is free; activations and what the process allocates later need room too.
  [[nodiscard]] std::size_t room_for_data() const override {
    if (!context_->has_device()) return 0;
    std::size_t free = 0, total = 0;
    DEMI_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return free / 2;
  }

  [[nodiscard]] std::unique_ptr<Readback> make_readback(
      std::shared_ptr<const DeviceMemory> memory) override {
    require_device();
    return make_device_readback(context_, std::move(memory));
  }

  [[nodiscard]] KernelSelection select(const KernelRequest& request) override {
    return kernel_registry().select(request, *context_);
  }

  [[nodiscard]] std::unique_ptr<LaunchSequence> sequence(std::vector<Launch> launches) override {
    require_device();
    return make_sequence(context_, name_, std::move(launches));
  }

  [[nodiscard]] std::vector<int> launch_counts(std::span<Kernel* const> kernels) const override {
    std::vector<int> counts(kernels.size(), 0);
    for (const JoinedLaunch& joined : join_launches(kernels)) {
      const bool is_program = joined.kind == JoinedLaunch::Kind::kInOrder ||
                              joined.kind == JoinedLaunch::Kind::kSideBySide;
      counts[joined.first] = is_program ? 1 : kernels[joined.first]->launches();
    }
    return counts;
  }

  void synchronize() override {
    require_device();
    DEMI_CUDA_CHECK(cudaStreamSynchronize(context_->stream()));
  }

 private:
  void require_device() const {
    if (!context_->has_device()) {
      throw DeviceError("[device] expected a GPU to run on. Received: the profile of one (" +
                        context_->properties().name + "), which only plans.");
    }
  }

  std::string name_;
  std::shared_ptr<Context> context_;
};

Options make_options(const GpuOptions& gpu) {
  Options options;
  options.allow_tf32 = gpu.allow_tf32;
  options.autotune = gpu.autotune;
  options.preference = gpu.preference;
  return options;
}

std::string version_text(int version, int thousands) {
  return std::to_string(version / thousands) + "." + std::to_string(version % thousands / 10);
}

int device_count(std::string& reason) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    reason = driver == 0
                 ? "no NVIDIA driver is loaded"
                 : "the NVIDIA driver (CUDA " + version_text(driver, 1000) +
                       ") is older than the CUDA runtime (" + version_text(runtime, 1000) + ")";
    return 0;
  }
  if (status != cudaSuccess && status != cudaErrorNoDevice) {
    reason = std::string("the CUDA runtime reports: ") + cudaGetErrorString(status);
    return 0;
  }
  if (status == cudaErrorNoDevice || count == 0) {
    reason = "the NVIDIA driver sees no GPU";
    return 0;
  }
  return count;
}

std::string device_name(int ordinal) {
  return DEMI_CUDA_DEVICE_PREFIX + std::to_string(ordinal);
}

/// Throws DeviceError for a GPU that cannot be used.
DeviceInfo describe_device(int ordinal) {
  const DeviceProperties properties = read_device_properties(ordinal);
  DeviceInfo info;
  info.name = device_name(ordinal);
  info.description = properties.name;
  info.memory_bytes = properties.memory_bytes;
  DEMI_CUDA_CHECK(cudaSetDevice(ordinal));
  std::size_t total = 0;
  DEMI_CUDA_CHECK(cudaMemGetInfo(&info.free_bytes, &total));
  info.compute_capability = properties.compute_capability;
  info.multiprocessors = properties.multiprocessors;
  DEMI_CUDA_CHECK(cudaDriverGetVersion(&info.driver_version));
  info.tensor_cores = properties.compute_capability >= 70;
  info.float16 = true;
  info.bfloat16 = properties.supports_bfloat16();
  return info;
}

/// Those that can be used; `reason` says why others cannot, such as one that is too old beside one
/// that is not. Leaves the thread's current device as it was.
std::vector<DeviceInfo> list_devices(std::string& reason) {
  std::vector<DeviceInfo> list;
  const int count = device_count(reason);
  int current = 0;
  if (count > 0) DEMI_CUDA_CHECK(cudaGetDevice(&current));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    try {
      list.push_back(describe_device(ordinal));
    } catch (const DeviceError& error) {
      reason +=
          (reason.empty() ? "" : "; ") + device_name(ordinal) + " cannot be used: " + error.what();
      (void)cudaGetLastError();
    }
  }
  if (count > 0) (void)cudaSetDevice(current);
  return list;
}

std::string library_versions() {
  int runtime = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  const std::size_t cudnn = cudnnGetVersion();
  const std::size_t cublas = cublasLtGetVersion();
  return "CUDA runtime " + version_text(runtime, 1000) + ", cuDNN " +
         std::to_string(cudnn / 10000) + "." + std::to_string(cudnn % 10000 / 100) + "." +
         std::to_string(cudnn % 100) + ", cuBLAS " + std::to_string(cublas / 10000) + "." +
         std::to_string(cublas % 10000 / 100);
}

std::shared_ptr<Backend> make_device_backend(int ordinal, const GpuOptions& options) {
  return std::make_shared<CudaBackend>(device_name(ordinal),
                                       std::make_shared<Context>(ordinal, make_options(options)));
}

std::shared_ptr<Backend> make_profile_backend(std::string_view profile, const GpuOptions& options) {
  return std::make_shared<CudaBackend>(
      std::string(profile),
      std::make_shared<Context>(profile_properties(profile), make_options(options)));
}

}  // namespace
}  // namespace cuda

extern "C" __attribute__((visibility("default"))) const GpuPlugin* demi_gpu_plugin() {
  static const GpuPlugin plugin = {.version = kGpuPluginVersion,
                                   .devices = &cuda::list_devices,
                                   .library_versions = &cuda::library_versions,
                                   .make_backend = &cuda::make_device_backend,
                                   .make_planning_backend = &cuda::make_profile_backend};
  return &plugin;
}

}  // namespace demi
