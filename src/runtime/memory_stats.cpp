#include "src/runtime/memory_stats.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/runtime/memory_pool.h"
#include "src/runtime/nvml.h"
#include "src/runtime/process_memory.h"

namespace demi {
namespace runtime {

memory::Stats memory_stats(const Backend& backend) {
  memory::Stats stats = MemoryPool::of(backend.name()).stats();
  const DeviceMemoryInfo device = backend.memory_info();
  stats.device_total = device.total;
  stats.device_free = device.free;
  stats.device_used = device.total - std::min(device.total, device.free);
  if (backend.name() == "cpu") {
    stats.process = resident_bytes();
    stats.process_source = "resident memory, /proc/self/statm";
  } else if (const GpuProcessMemory found = gpu_process_memory(device.pci_bus_id); found.bytes) {
    stats.process = *found.bytes;
    stats.process_source = "NVML, as nvidia-smi shows it";
  } else {
    stats.process_source = "not known: " + found.reason;
  }
  return stats;
}

}  // namespace runtime

namespace memory {
namespace {

std::string line(const char* name, std::size_t bytes, const std::string& note = "") {
  return fmt::format("  {:32} {:>16} B{}{}\n", name, bytes, note.empty() ? "" : "  ", note);
}

/// "= 12 B above + 34 B of such and such".
std::string difference(std::size_t whole, std::size_t part, const char* above, const char* rest) {
  if (whole < part) return fmt::format("{} B less than {}: {}", part - whole, above, rest);
  return fmt::format("= {} + {} B {}", above, whole - part, rest);
}

}  // namespace

void configure(std::string_view device, const Options& options) {
  runtime::MemoryPool::of(make_backend(device, 1)->name()).configure(options);
}

Stats stats(std::string_view device) {
  return runtime::memory_stats(*make_backend(device, 1));
}

void reset_peak(std::string_view device) {
  runtime::MemoryPool::of(make_backend(device, 1)->name()).reset_peak();
}

std::string to_string(const Stats& stats) {
  std::string text = fmt::format("Memory of {}\n", stats.device);
  text += line("planned by compiled steps", stats.planned);
  text += line("in use by models", stats.in_use,
               difference(stats.in_use, stats.planned, "planned", "of models that have no plan"));
  for (const auto& [purpose, bytes] : stats.held) {
    text += line(("  " + purpose).c_str(), bytes);
  }
  text += line("peak of that", stats.peak);
  text += line("arena as planned", stats.arena_planned);
  text += line("arena that kernels were given", stats.arena_peak, "measured");
  text += line("reserved by demi", stats.reserved,
               difference(stats.reserved, stats.in_use, "in use", "rounded up or kept"));
  if (stats.process == 0) {
    text += fmt::format("  {:32} {:>16}    {}\n", "process", "-", stats.process_source);
  } else {
    text += line("process", stats.process,
                 difference(stats.process, stats.reserved, "reserved",
                            "of program, context, libraries and data") +
                     " (" + stats.process_source + ")");
  }
  text += line("device, in use", stats.device_used,
               stats.process == 0 ? ""
                                  : difference(stats.device_used, stats.process, "process",
                                               "of other processes and the system"));
  text += line("device, free", stats.device_free);
  text += line("device, total", stats.device_total);
  return text;
}

}  // namespace memory
}  // namespace demi
