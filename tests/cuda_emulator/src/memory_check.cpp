#include "tests/cuda_emulator/src/memory_check.h"

#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {

void MemoryCheck::add(const std::string& name, const void* address, std::size_t bytes,
                      bool is_written) {
  if (!is_device_range(address, bytes)) {
    fatal(std::string(call_) + ": " + name + " needs " + std::to_string(bytes) +
          " bytes of one device allocation; from its address there are " +
          std::to_string(device_bytes_from(address)));
  }
  const auto* begin = static_cast<const std::byte*>(address);
  for (const Range& other : ranges_) {
    const bool overlaps = begin < other.begin + other.bytes && other.begin < begin + bytes;
    if (overlaps && (is_written || other.is_written)) {
      fatal(std::string(call_) + ": " + name + " overlaps " + other.name);
    }
  }
  ranges_.push_back({name, begin, bytes, is_written});
}

}  // namespace cuda_emulator
