#include "tests/cuda_emulator/src/cudnn_real.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "tests/cuda_emulator/src/sanitizer.h"
#include "tests/cuda_emulator/src/stream.h"
#ifdef CUDA_EMULATOR_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace cuda_emulator {
namespace {

struct Library {
  void* handle = nullptr;
  std::string error;
};

const Library& library() {
  static const Library loaded = [] {
    Library library;
    const char* const wanted = std::getenv("DEMI_EMULATOR_CUDNN");
#ifdef DEMI_CUDNN_LIBRARY
    const char* file = DEMI_CUDNN_LIBRARY;
#else
    const char* file = "libcudnn.so.9";
#endif
    if (wanted != nullptr) file = wanted;
    const IgnoredAllocations ignored;
    library.handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library.handle == nullptr) library.error = dlerror();
    return library;
  }();
  return loaded;
}

/// As cuDNN, one message per thread. Characters, because handles are destroyed by the destructors
/// of static objects too, when a thread's strings are gone.
thread_local std::array<char, 1024> last_failure{};

}  // namespace

bool has_real_cudnn() {
  return library().handle != nullptr;
}

const std::string& real_cudnn_error() {
  return library().error;
}

IgnoredAllocations::IgnoredAllocations() {
#ifdef CUDA_EMULATOR_ASAN
  __lsan_disable();
#endif
}

IgnoredAllocations::~IgnoredAllocations() {
#ifdef CUDA_EMULATOR_ASAN
  __lsan_enable();
#endif
}

void* real_cudnn_symbol(const char* name) {
  if (!has_real_cudnn()) fatal(std::string(name) + " needs an installed cuDNN");
  void* const symbol = dlsym(library().handle, name);
  if (symbol == nullptr) fatal(std::string("the installed cuDNN has no ") + name);
  return symbol;
}

cudnnStatus_t cudnn_failure(cudnnStatus_t status, std::string message) {
  message.insert(0, "[cuda emulator] ");
  last_failure[message.copy(last_failure.data(), last_failure.size() - 1)] = '\0';
  return status;
}

void clear_cudnn_failure() {
  last_failure[0] = '\0';
}

cudnnStatus_t no_real_cudnn(const char* call) {
  return cudnn_failure(CUDNN_STATUS_NOT_INITIALIZED,
                       std::string(call) +
                           ": the emulator lets an installed cuDNN 9.8 or newer plan, but there is "
                           "none: " +
                           real_cudnn_error());
}

}  // namespace cuda_emulator

using cuda_emulator::has_real_cudnn;

size_t cudnnGetVersion() {
  return has_real_cudnn() ? DEMI_REAL_CUDNN(cudnnGetVersion)() : CUDNN_VERSION;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  if (has_real_cudnn()) return DEMI_REAL_CUDNN(cudnnGetErrorString)(status);
  return status == CUDNN_STATUS_NOT_INITIALIZED ? "CUDNN_STATUS_NOT_INITIALIZED"
                                                : "CUDNN_STATUS of an emulator without cuDNN";
}

void cudnnGetLastErrorString(char* message, size_t max_size) {
  using cuda_emulator::last_failure;
  if (message == nullptr || max_size == 0) return;
  if (last_failure[0] == '\0' && has_real_cudnn()) {
    DEMI_REAL_CUDNN(cudnnGetLastErrorString)(message, max_size);
    return;
  }
  message[std::string_view(last_failure.data()).copy(message, max_size - 1)] = '\0';
  cuda_emulator::clear_cudnn_failure();
}
