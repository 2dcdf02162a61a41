// The memory that a call of an emulated library touches.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cuda_emulator {

/// Stops, naming call and argument, where a GPU would go astray: at memory that is not all in one
/// device allocation, and at results that overlap something else.
class MemoryCheck {
 public:
  explicit MemoryCheck(const char* call) : call_(call) {}

  void add_read(const std::string& name, const void* address, std::size_t bytes) {
    add(name, address, bytes, false);
  }
  void add_written(const std::string& name, const void* address, std::size_t bytes) {
    add(name, address, bytes, true);
  }

 private:
  struct Range {
    std::string name;
    const std::byte* begin;
    std::size_t bytes;
    bool is_written;
  };

  void add(const std::string& name, const void* address, std::size_t bytes, bool is_written);

  const char* call_;
  std::vector<Range> ranges_;
};

}  // namespace cuda_emulator
