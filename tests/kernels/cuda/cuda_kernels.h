// CudaKernels: kernels of the emulated GPU beside those of the CPU.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/emulated_gpu.h"
#include "tests/support/op_harness.h"
#include "tests/support/run_kernel.h"

namespace demi::testing {

class CudaKernels : public EmulatedGpuTest {
 protected:
  static constexpr const char* kDevice = "cuda-emu";

  /// Expects the device's output 0 to be the CPU's within `tolerance` (0: the same values); returns
  /// the name of the device's kernel.
  static std::string expect_agreement(const char* op, const Attributes& attributes,
                                      const std::vector<const Tensor*>& inputs,
                                      double tolerance = 0) {
    std::string name;
    const std::vector<Tensor> expected = run_kernel(op, attributes, inputs, {.device = "cpu"});
    const std::vector<Tensor> actual =
        run_kernel(op, attributes, inputs, {.device = kDevice, .selected = &name});
    EXPECT_EQ(actual[0].dtype(), expected[0].dtype());
    expect_close(actual[0], to_doubles(expected[0]), tolerance, 1.0,
                 std::string(op) + " by " + name);
    return name;
  }
};

}  // namespace demi::testing
