#include <demi/ops/binary.h>
#include <demi/ops/cast.h>

#include <cmath>

#include <gtest/gtest.h>

#include "tests/ops/binary/pair_ops.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using namespace demi::testing;          // NOLINT(google-build-using-namespace)
using namespace demi::testing::binary;  // NOLINT(google-build-using-namespace)

TEST(Where, SelectsElementByElement) {
  for (const DType dtype : {float32, float16, bfloat16, float64, int32, int64, uint8}) {
    const std::vector<Tensor> inputs =
        tensors(random_tensor({40, 1, 30}, int32, 1, 0, 2).to(boolean),
                random_tensor({20, 30}, dtype, 2, 0, 100), random_tensor({}, dtype, 3, 0, 100));
    for (const std::string& device : test_devices()) {
      const Tensor y = run_one([](const auto& x) { return ops::where(x[0], x[1], x[2]); }, inputs,
                               {.device = device});
      EXPECT_EQ(y.dtype(), dtype);
      expect_close(
          y,
          broadcast_reference(inputs, {40, 20, 30},
                              [](const std::vector<double>& x) { return x[0] != 0 ? x[1] : x[2]; }),
          0, 0);
    }
  }
}

TEST(Where, DoesNotTouchWhatIsNotChosen) {
  const std::vector<Tensor> inputs =
      tensors(Tensor::from(std::vector<double>{1, 0, 2}, {3}).to(boolean),
              Tensor::from(std::vector<float>{1, NAN, 2}, {3}),
              Tensor::from(std::vector<float>{INFINITY, 3, NAN}, {3}));
  const Tensor y = run_one([](const auto& x) { return ops::where(x[0], x[1], x[2]); }, inputs);
  EXPECT_EQ(to_doubles(y), (std::vector<double>{1, 3, 2}));
}

TEST(BroadcastTo, RepeatsElements) {
  for (const DType dtype : kFloating) {
    const std::vector<Tensor> inputs = tensors(random_tensor({3, 1, 5}, dtype, 1));
    for (const std::string& device : test_devices()) {
      const Tensor y = run_one(
          [](const auto& x) {
            return ops::broadcast_to(x[0], {2, 3, 700, 5});
          },
          inputs, {.device = device});
      expect_close(y,
                   broadcast_reference(inputs, {2, 3, 700, 5},
                                       [](const std::vector<double>& x) { return x[0]; }),
                   0, 0);
    }
  }
}

struct SumCase {
  Shape from, to;
};

const SumCase kSums[] = {
    {{64, 13, 13, 24}, {24}},
    {{5, 3000}, {3000}},
    {{3000, 5}, {5}},
    {{40, 1000}, {40, 1}},
    {{70000}, {}},
    {{70000, 1}, {1}},
    {{2, 3, 4, 5}, {3, 1, 5}},
    {{6, 5, 4, 3}, {6, 1, 4, 1}},
    {{4, 3}, {4, 3}},
    {{0, 3}, {3}},
    {{3, 0}, {3, 1}},
    {{2, 0}, {1, 0}},
    {{1, 1}, {}},
};

std::vector<double> sum_to_reference(const Tensor& x, const Shape& to) {
  std::vector<double> sums(static_cast<std::size_t>(to.elements()), 0.0);
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    std::int64_t rest = i, offset = 0, stride = 1;
    for (int axis = -1; axis >= -x.shape().rank(); --axis) {
      const std::int64_t index = rest % x.shape()[axis];
      rest /= x.shape()[axis];
      if (axis < -to.rank()) continue;
      if (to[axis] != 1) offset += index * stride;
      stride *= to[axis];
    }
    sums[static_cast<std::size_t>(offset)] += x.at(i);
  }
  return sums;
}

TEST(SumTo, SumsWhatWasBroadcast) {
  for (const SumCase& shapes : kSums) {
    for (const DType dtype : kFloating) {
      const std::vector<Tensor> inputs = tensors(random_tensor(shapes.from, dtype, 1));
      for (const std::string& device : test_devices()) {
        const Tensor y = run_one([&](const auto& x) { return ops::sum_to(x[0], shapes.to); },
                                 inputs, {.device = device});
        ASSERT_EQ(y.shape(), shapes.to);
        ASSERT_EQ(y.dtype(), dtype);
        const double terms = static_cast<double>(std::max<std::int64_t>(
            1, shapes.from.elements() / std::max<std::int64_t>(1, shapes.to.elements())));
        // The reference, too, is in float64.
        const double unit = dtype == float64 ? 1e-15 : rounding_unit(float32);
        expect_close(y, sum_to_reference(inputs[0], shapes.to),
                     rounding_unit(dtype) + 4 * unit * std::sqrt(terms), 1.0,
                     shapes.from.to_string() + " to " + shapes.to.to_string());
      }
    }
  }
}

TEST(SumTo, StoresFloat32WhereItIsCastToIt) {
  // float16 has no 4001.
  const std::vector<Tensor> inputs = tensors(Tensor::full({4001, 3}, 1, float16));
  const auto graph = [](const auto& x) { return ops::cast(ops::sum_to(x[0], {3}), float32); };
  const Tensor y = run_one(graph, inputs, {.simplify = true});
  EXPECT_EQ(to_doubles(y), (std::vector<double>{4001, 4001, 4001}));
}

TEST(SumTo, GivesGradientsOfTheDtypeOfTheirInput) {
  const std::vector<Tensor> inputs =
      tensors(random_tensor({40, 3}, float16, 1), random_tensor({3}, float16, 2));
  const std::vector<Tensor> weights = tensors(random_tensor({40, 3}, float16, 3));
  const auto gradient =
      gradients([](const auto& x) { return std::vector{ops::add(x[0], x[1])}; }, inputs, weights);
  expect_identical(gradient[0], weights[0]);
  EXPECT_EQ(gradient[1].dtype(), float16);
  expect_close(gradient[1], sum_to_reference(weights[0], {3}), rounding_unit(float16));
}

}  // namespace
}  // namespace demi
