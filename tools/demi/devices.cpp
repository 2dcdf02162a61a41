#include <string>

#include <demi/device.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "tools/demi/commands.h"

namespace demi::tools {
namespace {

double gibibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

void print_device(const DeviceInfo& device) {
  fmt::print("{:8} {}\n", device.name, device.description);
  fmt::print("         memory {:.1f} GiB, free {:.1f} GiB\n", gibibytes(device.memory_bytes),
             gibibytes(device.free_bytes));
  if (device.compute_capability > 0) {
    fmt::print("         compute capability {}.{}, {} multiprocessors, driver for CUDA {}.{}\n",
               device.compute_capability / 10, device.compute_capability % 10,
               device.multiprocessors, device.driver_version / 1000,
               device.driver_version % 1000 / 10);
  }
  const auto yes = [](bool value) { return value ? "yes" : "no"; };
  fmt::print("         tensor cores {}, float16 in hardware {}, bfloat16 in hardware {}\n",
             yes(device.tensor_cores), yes(device.float16), yes(device.bfloat16));
}

void print_devices() {
  for (const DeviceInfo& device : devices()) print_device(device);
  if (const std::string reason = why_no_gpu(); !reason.empty()) {
    fmt::print("no GPU can be used: {}\n", reason);
  }
  const std::string versions = gpu_library_versions();
  fmt::print("GPU libraries: {}\n", versions.empty() ? "not available" : versions);
}

}  // namespace

Command add_devices_command(CLI::App& app) {
  return {app.add_subcommand("devices", "list the devices of this machine"), [] {
            print_devices();
            return 0;
          }};
}

}  // namespace demi::tools
