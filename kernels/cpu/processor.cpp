#include "kernels/cpu/processor.h"

#include <fstream>
#include <thread>

namespace demi::cpu {
namespace {

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    if (value != std::string::npos) return line.substr(value);
  }
  return "unnamed processor";
}

const char* vector_extension() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  if (__builtin_cpu_supports("avx2")) return "AVX2";
#endif
  return "portable kernels";
}

}  // namespace

std::string describe_processor() {
  return model_name() + ", " + vector_extension() + ", " +
         std::to_string(std::thread::hardware_concurrency()) + " threads";
}

bool converts_float16() {
#ifdef __F16C__
  return true;
#else
  return false;
#endif
}

}  // namespace demi::cpu
