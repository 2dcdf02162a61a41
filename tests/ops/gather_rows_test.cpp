#include <demi/ops/gather_rows.h>

#include <stdexcept>

#include <gtest/gtest.h>

#include <demi/ops/cast.h>

#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using namespace demi::testing;  // NOLINT(google-build-using-namespace)

constexpr DType kAll[] = {float32, float64, float16, bfloat16, int32, int64, uint8, boolean};

Tensor rows_of(std::vector<std::int64_t> numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  return Tensor::from(numbers, Shape{count});
}

/// The elements of `x` in those rows, zeros for rows that there are not.
std::vector<double> expected_rows(const Tensor& x, const Tensor& rows) {
  const std::vector<double> values = to_doubles(x);
  const std::int64_t elements = x.shape().without_front().elements();
  std::vector<double> result;
  for (const double number : to_doubles(rows)) {
    const auto row = static_cast<std::int64_t>(number);
    for (std::int64_t i = 0; i < elements; ++i) {
      const bool is_there = row >= 0 && row < x.shape()[0];
      result.push_back(is_there ? values[static_cast<std::size_t>(row * elements + i)] : 0.0);
    }
  }
  return result;
}

TEST(GatherRows, CopiesRowsOfEveryDtype) {
  for (const DType dtype : kAll) {
    for (const Shape& shape : {Shape{70000}, Shape{11, 3, 5}, Shape{4, 1}}) {
      const auto inputs = tensors(rows_of({3, 0, 3, 1, 2}), random_tensor(shape, dtype, 1, 0, 200));
      for (const std::string& device : test_devices()) {
        const std::vector<Tensor> y =
            run([](const auto& in) { return ops::gather_rows(in[0], {in[1]}); }, inputs,
                {.device = device});
        EXPECT_EQ(y[0].dtype(), dtype);
        EXPECT_EQ(y[0].shape(), shape.without_front().with_front(5));
        EXPECT_EQ(to_doubles(y[0]), expected_rows(inputs[1], inputs[0]))
            << device << " " << to_string(dtype) << shape.to_string();
      }
    }
  }
}

TEST(GatherRows, RescalesAndStoresTheDtypeItIsCastTo) {
  for (const DType dtype : {uint8, int32, float32, float16, float64}) {
    const auto inputs =
        tensors(rows_of({8, 2, 2, 0, 5, 7}), random_tensor({9, 1201}, dtype, 2, 0, 256));
    std::vector<double> expected = expected_rows(inputs[1], inputs[0]);
    for (double& value : expected) value = value * 0.25 - 3;
    for (const DType stored : {float32, float16, bfloat16, float64}) {
      const auto function = [&](const auto& in) {
        return std::vector{ops::cast(ops::gather_rows(in[0], {in[1]}, {{0.25, -3}})[0], stored)};
      };
      for (const std::string& device : test_devices()) {
        const std::vector<Tensor> y = run(function, inputs, {.device = device, .simplify = true});
        // Computed in float32 where neither end is float64, then rounded once.
        const double unit =
            std::max(rounding_unit(stored), dtype == float16 ? rounding_unit(float16) : 0x1p-23);
        expect_close(y[0], expected, 1.01 * unit, 1.0,
                     device + " " + std::string(to_string(dtype)) + to_string(stored).data());
      }
    }
  }
}

TEST(GatherRows, FoldsTheCastBehindIt) {
  const std::string graph = printed_graph(
      [](const auto& in) {
        return std::vector{ops::cast(ops::gather_rows(in[0], {in[1]}, {{0.5, 0}})[0], float16)};
      },
      {{{4}, int64}, {{10, 3}, uint8}}, {.simplify = true});
  EXPECT_EQ(graph.find("cast"), std::string::npos) << graph;
  EXPECT_NE(graph.find(": float16[4, 3]"), std::string::npos) << graph;
}

TEST(GatherRows, TakesMoreArraysThanOneLaunch) {
  std::vector<Tensor> inputs = tensors(rows_of({5, 0, 6}));
  for (int i = 0; i < 19; ++i) {
    inputs.push_back(random_tensor({7, 1 + i % 4}, kAll[i % 8], 10 + i, 0, 100));
  }
  const auto function = [](const auto& in) {
    return ops::gather_rows(in[0], {in.begin() + 1, in.end()});
  };
  for (const std::string& device : test_devices()) {
    const std::vector<Tensor> y = run(function, inputs, {.device = device});
    ASSERT_EQ(y.size(), 19u);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(to_doubles(y[i]), expected_rows(inputs[i + 1], inputs[0])) << device << " " << i;
    }
  }
}

TEST(GatherRows, GivesZerosForRowsThatThereAreNot) {
  const auto inputs = tensors(rows_of({-1, 2, 3, 1LL << 40}), random_tensor({3, 2}, float32, 3),
                              Tensor::full({3}, 9, uint8));
  const auto function = [](const auto& in) {
    return ops::gather_rows(in[0], {in[1], in[2]}, {{2, 1}, {1, 0}});
  };
  for (const std::string& device : test_devices()) {
    const std::vector<Tensor> y = run(function, inputs, {.device = device});
    EXPECT_EQ(y[0].at(0), 1) << "zero, rescaled";
    EXPECT_EQ(y[0].at(7), 1);
    EXPECT_EQ(to_doubles(y[1]), (std::vector<double>{0, 9, 0, 0}));
  }
}

TEST(GatherRows, WorksOnNothing) {
  for (const std::string& device : test_devices()) {
    const std::vector<Tensor> none =
        run([](const auto& in) { return ops::gather_rows(in[0], {in[1]}); },
            tensors(rows_of({}), random_tensor({3, 2}, float32, 3)), {.device = device});
    EXPECT_EQ(none[0].shape(), (Shape{0, 2}));
    const std::vector<Tensor> empty = run(
        [](const auto& in) {
          return ops::gather_rows(in[0], {in[1], in[2]});
        },
        tensors(rows_of({1}), Tensor({3, 0}, float32), Tensor::full({2}, 4, int32)),
        {.device = device});
    EXPECT_EQ(empty[0].shape(), (Shape{1, 0}));
    EXPECT_EQ(empty[1].at(0), 4);
  }
}

TEST(GatherRows, RefusesWhatItCannotGather) {
  const auto call = [](std::vector<TensorType> types,
                       std::vector<ops::RescaleAttributes> rescales) {
    return message_of<std::invalid_argument>([&] {
      (void)printed_graph(
          [&](const auto& in) {
            return ops::gather_rows(in[0], {in.begin() + 1, in.end()}, rescales);
          },
          types);
    });
  };
  EXPECT_EQ(call({{{4}, int32}, {{3}, uint8}}, {}),
            "[gather_rows] expected int64 row numbers [m] and arrays with a first axis. Received: "
            "int32[4] and uint8[3].");
  EXPECT_NE(call({{{4}, int64}, {{}, uint8}}, {}).find("arrays with a first axis"),
            std::string::npos);
  EXPECT_NE(call({{{4}, int64}, {{3}, boolean}}, {{2, 0}}).find("numbers where there is a rescale"),
            std::string::npos);
  EXPECT_EQ(call({{{4}, int64}, {{3}, uint8}}, {{2, 0}, {3, 0}}),
            "[gather_rows] expected one rescale for each of 1 arrays. Received: 2.");
}

TEST(GatherRows, HasNoGradient) {
  const std::string message = message_of<std::invalid_argument>([] {
    (void)gradients([](const auto& in) { return ops::gather_rows(in[0], {in[1]}); },
                    tensors(rows_of({1}), random_tensor({3, 2}, float32, 3)),
                    tensors(Tensor({1, 2}, float32)));
  });
  EXPECT_NE(message.find("expected data, which need no gradient"), std::string::npos) << message;
}

}  // namespace
}  // namespace demi
