// What tests/ops does not reach of the CUDA kernels of reductions: splits among blocks, lanes
// shared by rows, odd channels, long rows.
#include <cmath>

#include <demi/ops/binary.h>
#include <demi/ops/reduction.h>

#include "tests/kernels/cuda/cuda_kernels.h"

namespace demi {
namespace {

using ops::ReductionAttributes;
using testing::random_tensor;
using testing::run_kernel;

class CudaReduction : public testing::CudaKernels {};

TEST_F(CudaReduction, SumsColumnsOfManyRows) {
  constexpr std::int64_t kRows = 70000;
  for (const DType dtype : {float16, float32}) {
    for (const std::int64_t channels : {1, 3, 10, 35, 64}) {
      const Tensor dy = random_tensor({kRows, channels}, dtype, 1);
      const std::vector<double> elements = testing::to_doubles(dy);
      std::vector<double> expected(static_cast<std::size_t>(channels), 0.0);
      for (std::size_t i = 0; i < elements.size(); ++i) {
        expected[i % expected.size()] += elements[i];
      }
      const auto sums = run_kernel("sum_to", ops::BroadcastAttributes{Shape{channels}}, {&dy},
                                   {.device = kDevice});
      testing::expect_close(sums[0], expected, dtype == float16 ? 5e-4 : 1e-5, 1.0,
                            std::to_string(channels));
    }
  }
}

TEST_F(CudaReduction, SumsManyShortRowsAndFewLongOnes) {
  for (const Shape& shape :
       {Shape{70000, 10}, Shape{300, 33}, Shape{5, 1025}, Shape{3, 100003}, Shape{1, 300000}}) {
    const Tensor x = random_tensor(shape, float16, 2);
    const ReductionAttributes last{{1}, false};
    const char* name = shape[1] <= 1024 ? "rows_by_lanes" : "rows_by_blocks";
    EXPECT_EQ(expect_agreement("sum", last, {&x}, 5e-5), name);
    EXPECT_EQ(expect_agreement("max", last, {&x}), name);
    expect_agreement("argmax", last, {&x});
  }
}

TEST_F(CudaReduction, ReducesAxesThatDoNotFollowEachOther) {
  const Tensor x = random_tensor({5, 3, 7, 4, 9}, float32, 3);
  for (const std::vector<int>& axes :
       {std::vector<int>{0, 2, 4}, {1, 3}, {0, 2}, {1, 4}, {0, 1, 2, 3, 4}, {2}}) {
    expect_agreement("mean", ReductionAttributes{axes, true}, {&x}, 1e-6);
    expect_agreement("max", ReductionAttributes{axes, false}, {&x});
  }
  expect_agreement("argmax", ReductionAttributes{{2}, false}, {&x});
}

TEST_F(CudaReduction, GivesTheSameBitsEveryTime) {
  const Tensor x = random_tensor({40000, 3}, float32, 4);
  const Attributes over_rows = ReductionAttributes{{0}, false};
  const auto once = run_kernel("sum", over_rows, {&x}, {.device = kDevice});
  const auto again = run_kernel("sum", over_rows, {&x}, {.device = kDevice});
  testing::expect_identical(once[0], again[0], "sum");
}

TEST_F(CudaReduction, FindsTheFirstNaNOfALongRow) {
  Tensor x = random_tensor({2, 5000}, float32, 5);
  x.data<float>()[4321] = NAN;
  x.data<float>()[4400] = NAN;
  const auto place =
      run_kernel("argmax", ReductionAttributes{{1}, false}, {&x}, {.device = kDevice});
  EXPECT_EQ(place[0].at(0), 4321);
  const auto largest =
      run_kernel("max", ReductionAttributes{{1}, false}, {&x}, {.device = kDevice});
  EXPECT_TRUE(std::isnan(largest[0].at(0)));
  EXPECT_FALSE(std::isnan(largest[0].at(1)));
}

}  // namespace
}  // namespace demi
