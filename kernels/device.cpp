#include <demi/device.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

#include <demi/error.h>

#include "kernels/backend.h"
#include "kernels/cpu/processor.h"
#include "kernels/gpu_plugin.h"
#include "src/core/check.h"

namespace demi {
namespace {

constexpr const char* kCudaPlugin = "demi_cuda";
constexpr const char* kEmulatorPlugin = "demi_cuda_emu";
constexpr const char* kEmulatedDevice = "cuda-emu";

// The documented global settings.
std::atomic<bool> tf32_allowed = false;
std::mutex current_device_mutex;
std::string current_device_name = "auto";

/// Loading the plugin costs 0.1 s and 200 MB, so a machine without a driver is told from one with
/// it before.
bool driver_is_installed() {
  static const bool installed = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver != nullptr) dlclose(driver);
    return driver != nullptr;
  }();
  return installed;
}

DeviceInfo describe_cpu() {
  DeviceInfo info;
  info.name = "cpu";
  info.description = cpu::describe_processor();
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  info.memory_bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page;
  info.free_bytes = static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * page;
  info.float16 = cpu::converts_float16();
  return info;
}

/// The GPUs, or none and why.
std::vector<DeviceInfo> find_gpus(std::string& reason) {
  if (!driver_is_installed()) {
    reason = "no NVIDIA driver is installed (libcuda.so.1 was not found)";
    return {};
  }
  const GpuPlugin* plugin = load_gpu_plugin(kCudaPlugin, reason);
  return plugin == nullptr ? std::vector<DeviceInfo>() : plugin->devices(reason);
}

/// DEMI_PREFER=cudnn or own; unset or empty: what is faster.
Preference preference() {
  const char* setting = std::getenv("DEMI_PREFER");
  const std::string_view wanted = setting == nullptr ? "" : setting;
  if (wanted == "cudnn") return Preference::kCudnn;
  if (wanted == "own") return Preference::kOwn;
  if (!wanted.empty()) {
    internal::fail_argument("device", "expected DEMI_PREFER to be 'cudnn' or 'own'. Received: '" +
                                          std::string(wanted) + "'.");
  }
  return Preference::kFastest;
}

/// DEMI_AUTOTUNE=0 or 1 overrides `autotune`.
GpuOptions gpu_options(bool autotune = true) {
  GpuOptions options;
  const char* tune = std::getenv("DEMI_AUTOTUNE");
  options.autotune = tune == nullptr ? autotune : std::string_view(tune) != "0";
  options.allow_tf32 = tf32_allowed;
  options.preference = preference();
  return options;
}

/// N of "cuda:N" ("cuda" and "gpu": 0); -1 for other names.
int gpu_ordinal(std::string_view name) {
  if (name == "cuda" || name == "gpu") return 0;
  if (!name.starts_with("cuda:")) return -1;
  name.remove_prefix(5);
  if (name.empty() || name.size() > 3) return -1;
  int ordinal = 0;
  for (const char digit : name) {
    if (digit < '0' || digit > '9') return -1;
    ordinal = ordinal * 10 + (digit - '0');
  }
  return ordinal;
}

[[noreturn]] void refuse_gpu(std::string_view device, const std::string& reason) {
  throw DeviceError("[device] expected a GPU for '" + std::string(device) +
                    "'. Received: " + reason + ".");
}

void require_gpu(std::string_view device, int ordinal) {
  std::string reason;
  const std::vector<DeviceInfo> gpus = find_gpus(reason);
  if (gpus.empty()) refuse_gpu(device, reason);
  const std::string name = "cuda:" + std::to_string(ordinal);
  std::string usable;
  for (const DeviceInfo& gpu : gpus) {
    if (gpu.name == name) return;
    usable += (usable.empty() ? "'" : ", '") + gpu.name + "'";
  }
  refuse_gpu(device, "the GPUs here that can be used are " + usable +
                         (reason.empty() ? "" : "; " + reason));
}

const GpuPlugin& require_plugin(std::string_view device, const char* name) {
  std::string reason;
  const GpuPlugin* plugin = load_gpu_plugin(name, reason);
  if (plugin == nullptr) refuse_gpu(device, reason);
  return *plugin;
}

std::shared_ptr<Backend> make_gpu_backend(std::string_view device, int ordinal) {
  require_gpu(device, ordinal);
  return require_plugin(device, kCudaPlugin).make_backend(ordinal, gpu_options());
}

[[noreturn]] void refuse_name(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"auto", "cpu", "cuda:0", "cuda", "gpu"};
  internal::fail_argument("device", "expected 'auto', 'cpu' or 'cuda:N'. Received: '" +
                                        std::string(name) + "'." +
                                        internal::did_you_mean(name, kNames));
}

}  // namespace

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> list = {describe_cpu()};
  std::string reason;
  for (DeviceInfo& gpu : find_gpus(reason)) list.push_back(std::move(gpu));
  return list;
}

std::string gpu_library_versions() {
  std::string reason;
  const GpuPlugin* plugin = load_gpu_plugin(kCudaPlugin, reason);
  return plugin == nullptr ? "" : plugin->library_versions();
}

std::string why_no_gpu() {
  std::string reason;
  return find_gpus(reason).empty() ? reason : "";
}

void set_device(std::string_view name) {
  if (const int ordinal = gpu_ordinal(name); ordinal >= 0) {
    require_gpu(name, ordinal);
  } else if (name == kEmulatedDevice) {
    (void)require_plugin(name, kEmulatorPlugin);
  } else if (name != "auto" && name != "cpu") {
    refuse_name(name);
  }
  const std::lock_guard lock(current_device_mutex);
  current_device_name = name;
}

std::string current_device() {
  const std::lock_guard lock(current_device_mutex);
  return current_device_name;
}

void allow_tf32(bool allow) {
  tf32_allowed = allow;
}

bool tf32_is_allowed() {
  return tf32_allowed;
}

std::shared_ptr<Backend> make_backend(std::string_view device, int threads) {
  if (threads < 0) {
    internal::fail_argument(
        "device", "expected a number of threads >= 0. Received: " + std::to_string(threads) + ".");
  }
  const std::string chosen = device.empty() ? current_device() : std::string(device);
  if (chosen == "cpu") return make_cpu_backend(threads);
  if (chosen == "auto") {
    std::string reason;
    const std::vector<DeviceInfo> gpus = find_gpus(reason);
    return gpus.empty() ? make_cpu_backend(threads)
                        : make_gpu_backend("auto", gpu_ordinal(gpus.front().name));
  }
  if (const int ordinal = gpu_ordinal(chosen); ordinal >= 0) {
    return make_gpu_backend(chosen, ordinal);
  }
  if (chosen == kEmulatedDevice) {
    // Its times mean nothing.
    return require_plugin(chosen, kEmulatorPlugin).make_backend(0, gpu_options(false));
  }
  refuse_name(chosen);
}

std::shared_ptr<Backend> make_planning_backend(std::string_view profile) {
  std::string reason;
  const GpuPlugin* plugin = load_gpu_plugin(kCudaPlugin, reason);
  // The emulator's plugin has the same planner and needs no CUDA runtime.
  if (plugin == nullptr) plugin = load_gpu_plugin(kEmulatorPlugin, reason);
  if (plugin == nullptr) {
    throw DeviceError("[plan] expected the CUDA plugin, to plan for '" + std::string(profile) +
                      "'. Received: " + reason + ".");
  }
  return plugin->make_planning_backend(profile, gpu_options());
}

}  // namespace demi
