#include "src/runtime/process_memory.h"

#include <fstream>

#include <unistd.h>

namespace demi::runtime {

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  if (!(file >> all >> resident)) return 0;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace demi::runtime
