#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/cuda_emulator/src/guard.h"
#include "tests/cuda_emulator/src/memory.h"
#include "tests/cuda_emulator/src/state.h"

namespace cuda_emulator {
namespace {

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  return bytes;
}

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page_bytes()) / page_bytes() * page_bytes();
}

/// Address → bytes. Never destroyed.
std::map<std::uintptr_t, std::size_t>& allocations() {
  static auto* map = new std::map<std::uintptr_t, std::size_t>;
  return *map;
}

}  // namespace

void* allocate_pinned(std::size_t bytes) {
  const std::size_t pages = whole_pages(bytes);
  if (pages < bytes) return nullptr;
  void* address = mmap(nullptr, pages + page_bytes(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(address);
  mprotect(begin + pages, page_bytes(), PROT_NONE);
  std::memset(begin, state().settings.fill, bytes);
  write_guard(begin + bytes, pages - bytes);
  allocations().emplace(reinterpret_cast<std::uintptr_t>(address), bytes);
  return address;
}

bool free_pinned(void* address) {
  const auto found = allocations().find(reinterpret_cast<std::uintptr_t>(address));
  if (found == allocations().end()) return false;
  const std::size_t bytes = found->second;
  const std::size_t guard = whole_pages(bytes) - bytes;
  char* end = static_cast<char*>(address) + bytes;
  const std::size_t damage = first_damage(end, guard);
  if (damage < guard) {
    fatal("cudaFreeHost: " + std::to_string(damage) + " bytes past the END of pinned memory of " +
          std::to_string(bytes) + " bytes were written");
  }
  allow(end, guard);
  munmap(address, whole_pages(bytes) + page_bytes());
  allocations().erase(found);
  return true;
}

std::size_t pinned_count() {
  return allocations().size();
}

bool is_pinned_range(const void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex());
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  auto after = allocations().upper_bound(value);
  if (after == allocations().begin()) return false;
  const auto& [begin, held] = *--after;
  return value <= begin + held && bytes <= begin + held - value;
}

bool is_mapped(const void* address) {
  const std::size_t page = page_bytes();
  void* begin = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) / page * page);
  unsigned char resident = 0;
  return mincore(begin, page, &resident) == 0;
}

}  // namespace cuda_emulator
