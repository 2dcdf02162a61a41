#include "tests/cuda_emulator/src/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/cuda_emulator/src/device_profile.h"
#include "tests/cuda_emulator/src/guard.h"
#include "tests/cuda_emulator/src/state.h"

namespace cuda_emulator {
namespace {

constexpr std::uintptr_t kChunk = std::uintptr_t{2} << 20;
constexpr std::size_t kAlignment = 512;
// High enough to be in nobody's way, the same in every run.
constexpr std::uintptr_t kWantedBase = std::uintptr_t{0x2000} << 32;

std::uintptr_t round_up(std::uintptr_t value, std::uintptr_t unit) {
  return (value + unit - 1) / unit * unit;
}
std::uintptr_t round_down(std::uintptr_t value, std::uintptr_t unit) {
  return value / unit * unit;
}
void* pointer(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

std::uintptr_t g_base = 0, g_end = 0;
struct sigaction g_previous_handler;

/// Says what the fault is, then lets it happen again under the handler of before.
void explain_fault(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (address >= g_base && address < g_end) {
    char text[256];
    const int length = std::snprintf(
        text, sizeof(text),
        "[cuda emulator] device address %p was touched by the host, or after it was freed\n",
        info->si_addr);
    if (write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) std::abort();
  }
  sigaction(SIGSEGV, &g_previous_handler, nullptr);
}

}  // namespace

DeviceMemory::DeviceMemory() {
  for (std::size_t bytes = std::size_t{1} << 40; base_ == 0 && bytes >= std::size_t{1} << 30;
       bytes /= 2) {
    void* range = mmap(pointer(kWantedBase), bytes + kChunk, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) continue;
    base_ = round_up(reinterpret_cast<std::uintptr_t>(range), kChunk);
    end_ = base_ + bytes;
  }
  if (base_ == 0) fatal("no range of addresses for device memory");
  madvise(pointer(base_), end_ - base_, MADV_HUGEPAGE);
  next_ = base_;
  set_limit(0);
  g_base = base_;
  g_end = end_;
  struct sigaction handler = {};
  handler.sa_sigaction = explain_fault;
  handler.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &handler, &g_previous_handler);
}

void DeviceMemory::set_limit(std::size_t bytes) {
  if (bytes == 0) {
    const std::size_t host = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
    bytes = std::min(device_profile().memory_bytes, host / 2);
  }
  limit_ = bytes;
}

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t held = round_up(bytes, kAlignment);
  if (held < bytes || held > limit_ || used_ > limit_ - held) return nullptr;
  const std::uintptr_t address = next_ + kGuardBytes;
  const std::uintptr_t after = address + held + kGuardBytes;
  if (after > end_) {
    explain("the range of addresses for device memory is used up; no address is given out twice");
    return nullptr;
  }
  next_ = after;
  used_ += held;
  allocations_.emplace(address, bytes);
  update_spans();
  const DeviceAccess access;
  write_guard(pointer(address - kGuardBytes), kGuardBytes);
  allow(pointer(address), bytes);
  std::memset(pointer(address), state().settings.fill, bytes);
  write_guard(pointer(address + bytes), after - address - bytes);
  return pointer(address);
}

bool DeviceMemory::free(void* address) {
  const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == allocations_.end()) return false;
  const auto [begin, bytes] = *found;
  const std::uintptr_t end = begin + round_up(bytes, kAlignment) + kGuardBytes;
  if (bytes < kChunk) {
    // It shares chunks with others, which stay accessible: who reads it reads NaN.
    const DeviceAccess access;
    std::memset(address, 0xFF, bytes);
  }
  allocations_.erase(found);
  used_ -= round_up(bytes, kAlignment);
  forbid(address, bytes);
  update_spans();
  release_chunks(begin - kGuardBytes, end);
  return true;
}

/// Returns the pages of chunks without live allocations around [begin, end) to the system.
void DeviceMemory::release_chunks(std::uintptr_t begin, std::uintptr_t end) {
  std::uintptr_t low = round_down(begin, kChunk);
  std::uintptr_t high = round_up(end, kChunk);
  for (const Chunks& span : spans_) {
    if (span.begin <= low && low < span.end) low = std::min(span.end, high);
    if (span.begin < high && high <= span.end && span.begin >= low) high = span.begin;
  }
  if (low >= high) return;
  void* again = mmap(pointer(low), high - low, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (again == MAP_FAILED) fatal("freed device memory could not be released");
}

void DeviceMemory::update_spans() {
  std::vector<Chunks> spans;
  for (const auto& [address, bytes] : allocations_) {
    const std::uintptr_t begin = round_down(address - kGuardBytes, kChunk);
    const std::uintptr_t end =
        round_up(address + round_up(bytes, kAlignment) + kGuardBytes, kChunk);
    if (!spans.empty() && begin <= spans.back().end) {
      spans.back().end = std::max(spans.back().end, end);
    } else {
      spans.push_back({begin, end});
    }
  }
  // Never while work runs: allocation and release are calls of the host.
  spans_ = std::move(spans);
}

void DeviceMemory::open() {
  if (open_++ > 0) return;
  for (const Chunks& span : spans_) {
    if (mprotect(pointer(span.begin), span.end - span.begin, PROT_READ | PROT_WRITE) != 0) {
      fatal("device memory could not be made accessible");
    }
  }
}

void DeviceMemory::close() {
  if (--open_ > 0) return;
  for (const Chunks& span : spans_) {
    if (mprotect(pointer(span.begin), span.end - span.begin, PROT_NONE) != 0) {
      fatal("device memory could not be made inaccessible");
    }
  }
}

bool DeviceMemory::in_range(const void* address) const {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return value >= base_ && value < end_;
}

std::int64_t DeviceMemory::bytes_from(const void* address) const {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  auto after = allocations_.upper_bound(value);
  if (after == allocations_.begin()) return -1;
  const auto& [begin, bytes] = *--after;
  return value <= begin + bytes ? static_cast<std::int64_t>(begin + bytes - value) : -1;
}

std::string DeviceMemory::describe(const void* address) const {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  auto after = allocations_.upper_bound(value);
  if (after == allocations_.begin()) return "before every device allocation";
  const auto& [begin, bytes] = *--after;
  if (value < begin + bytes) {
    return "at byte " + std::to_string(value - begin) + " of a device allocation of " +
           std::to_string(bytes) + " bytes";
  }
  return std::to_string(value - begin - bytes) + " bytes past the end of the last device " +
         "allocation before it, of " + std::to_string(bytes) + " bytes, or in one that was freed";
}

void DeviceMemory::check_guards() const {
  for (const auto& [begin, bytes] : allocations_) {
    const std::size_t before = first_damage(pointer(begin - kGuardBytes), kGuardBytes);
    if (before < kGuardBytes) {
      fatal("wrote " + std::to_string(kGuardBytes - before) +
            " bytes before the BEGINNING of a device allocation of " + std::to_string(bytes) +
            " bytes");
    }
    const std::size_t guard = round_up(bytes, kAlignment) - bytes + kGuardBytes;
    const std::size_t behind = first_damage(pointer(begin + bytes), guard);
    if (behind < guard) {
      fatal("wrote " + std::to_string(behind + 1) + " bytes past the END of a device " +
            "allocation of " + std::to_string(bytes) + " bytes");
    }
  }
}

DeviceMemory& device_memory() {
  static auto* memory = new DeviceMemory;
  return *memory;
}

bool is_device_range(const void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex());
  const std::int64_t left = device_memory().bytes_from(address);
  return left >= 0 && bytes <= static_cast<std::size_t>(left);
}

std::size_t device_bytes_from(const void* address) {
  const std::lock_guard lock(mutex());
  return static_cast<std::size_t>(std::max<std::int64_t>(0, device_memory().bytes_from(address)));
}

void poison(void* address, std::size_t bytes) {
  if (!is_device_range(address, bytes)) fatal("poison: the range is not device memory");
  std::memset(address, state().settings.fill, bytes);
}

}  // namespace cuda_emulator
