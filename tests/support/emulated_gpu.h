// EmulatedGpuTest: a fixture for tests that train on the emulated GPU and read or set its controls.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include <dlfcn.h>

#include "kernels/gpu_plugin.h"
#include "tests/cuda_emulator/include/cuda_emulator/control.h"

namespace demi::testing {

/// Skips its tests, saying so, where the emulated GPU is not built.
class EmulatedGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (load_gpu_plugin("demi_cuda_emu", reason) == nullptr) {
      GTEST_SKIP() << "NOT TESTED, no emulated GPU: " << reason;
    }
  }

  /// The function `name` of control.h, which programs that open the plugin find at run time only:
  /// `control<decltype(demi_emulator_reset)>("demi_emulator_reset")()`.
  template <typename Function>
  static Function* control(const char* name) {
    void* emulator = dlopen("libdemi_cuda_emulator.so", RTLD_NOW | RTLD_NOLOAD);
    void* function = emulator == nullptr ? nullptr : dlsym(emulator, name);
    if (function == nullptr) throw std::runtime_error(dlerror());
    return reinterpret_cast<Function*>(function);
  }
};

/// control() with the type that control.h declares.
#define DEMI_EMULATOR(function) control<decltype(function)>(#function)

}  // namespace demi::testing
