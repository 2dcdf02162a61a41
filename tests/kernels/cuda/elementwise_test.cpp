// What tests/ops does not reach of the elementwise CUDA kernels: ends of arrays that fill no
// packet, grids that stride, operands that repeat, streams of random numbers.
#include <cstdint>

#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/dropout.h>

#include "tests/kernels/cuda/cuda_kernels.h"

namespace demi {
namespace {

using testing::random_tensor;
using testing::run_kernel;

class CudaElementwise : public testing::CudaKernels {};

TEST_F(CudaElementwise, TakesPacketsAndWhatIsLeftOfThem) {
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    for (const std::int64_t count : {1, 3, 7, 8, 9, 257, 4099}) {
      const Tensor a = random_tensor({count}, dtype, 1);
      const Tensor b = random_tensor({count}, dtype, 2);
      EXPECT_EQ(expect_agreement("multiply", {}, {&a, &b}), "packets") << count;
      EXPECT_EQ(expect_agreement("greater", {}, {&a, &b}), "packets") << count;
      EXPECT_EQ(expect_agreement("relu", {}, {&a}), "packets") << count;
    }
  }
}

TEST_F(CudaElementwise, StridesOverMoreElementsThanAGridHasThreads) {
  const Tensor x = random_tensor({10'000'003}, uint8, 1, 0, 256);
  expect_agreement("cast", ops::CastAttributes{float16}, {&x});
  expect_agreement("rescale", ops::RescaleAttributes{1.0 / 256, -0.5}, {&x});
}

TEST_F(CudaElementwise, RepeatsRowsInPacketsAndOddOnesOneByOne) {
  const Tensor number = random_tensor({1}, float16, 3);
  for (const std::int64_t channels : {1, 3, 35, 64}) {
    const Tensor x = random_tensor({700, channels}, float16, 1);
    const Tensor bias = random_tensor({channels}, float16, 2);
    const bool packets = channels % 8 == 0 || channels == 1;
    EXPECT_EQ(expect_agreement("add", {}, {&x, &bias}), packets ? "packets" : "any") << channels;
    EXPECT_EQ(expect_agreement("add", {}, {&number, &x}), "packets") << channels;
  }
}

TEST_F(CudaElementwise, BroadcastsInTheMiddleOfAShape) {
  const Tensor a = random_tensor({3, 1, 5, 1}, float32, 1);
  const Tensor b = random_tensor({2, 1, 4, 1, 7}, float16, 2);
  EXPECT_EQ(expect_agreement("subtract", {}, {&a, &b}), "any");
  const Tensor wide = random_tensor({9}, int32, 3, -2147483648.0, 2147483647.0);
  EXPECT_EQ(expect_agreement("multiply", {}, {&wide, &wide}), "any");
}

TEST_F(CudaElementwise, DropsWhatTheCpuDrops) {
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    for (const std::int64_t count : {1, 5, 8, 1003, 70000}) {
      const Tensor x = random_tensor({count}, dtype, 1);
      const Tensor step = Tensor::scalar(std::int64_t{5} << 33);
      const ops::DropoutAttributes attributes{0.3, 0x123456789abcdefull};
      const auto expected = run_kernel("dropout", attributes, {&x, &step});
      const auto actual = run_kernel("dropout", attributes, {&x, &step}, {.device = kDevice});
      testing::expect_identical(actual[0], expected[0], std::string(to_string(dtype)));
    }
  }
}

}  // namespace
}  // namespace demi
