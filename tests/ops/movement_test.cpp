#include <demi/ops/movement.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <demi/ops/binary.h>
#include <gtest/gtest.h>

#include "src/ir/graph.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using namespace demi::testing;  // NOLINT(google-build-using-namespace)

constexpr DType kAll[] = {float32, float16, bfloat16, float64, int32, int64, uint8, boolean};
constexpr std::int64_t kUnknown = Shape::kUnknown;

Tensor any_tensor(const Shape& shape, DType dtype, std::uint64_t seed = 1) {
  return is_floating(dtype) ? random_tensor(shape, dtype, seed)
                            : random_tensor(shape, int32, seed, 0, 200).to(dtype);
}

std::vector<std::int64_t> index_of(std::int64_t flat, const Shape& shape) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = flat % shape[axis];
    flat /= shape[axis];
  }
  return index;
}

std::int64_t flat_index(const std::vector<std::int64_t>& index, const Shape& shape) {
  std::int64_t flat = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    flat = flat * shape[axis] + index[static_cast<std::size_t>(axis)];
  }
  return flat;
}

// ---- reshape --------------------------------------------------------------------------------

TEST(Reshape, KeepsTheElements) {
  for (const DType dtype : kAll) {
    const auto inputs = tensors(any_tensor({4, 6}, dtype));
    const auto y = run(
        [](const auto& x) {
          return std::vector{ops::reshape(x[0], {2, 3, 4}), ops::reshape(x[0], {-1}),
                             ops::reshape(x[0], {8, -1})};
        },
        inputs);
    EXPECT_EQ(y[0].shape(), (Shape{2, 3, 4}));
    EXPECT_EQ(y[1].shape(), (Shape{24}));
    EXPECT_EQ(y[2].shape(), (Shape{8, 3}));
    for (const Tensor& tensor : y) EXPECT_EQ(to_doubles(tensor), to_doubles(inputs[0]));
  }
}

// ---- transpose ------------------------------------------------------------------------------

struct TransposeCase {
  Shape shape;
  std::vector<int> permutation;
};

const TransposeCase kTransposes[] = {
    {{70, 90}, {1, 0}},
    {{3, 4, 5, 6}, {0, 3, 1, 2}},
    {{3, 4, 5, 6}, {0, 2, 3, 1}},
    {{3, 4, 5, 6}, {2, 0, 1, 3}},
    {{3, 4, 5, 6}, {3, 2, 1, 0}},
    {{30, 1, 200}, {2, 1, 0}},
    {{2, 300, 100}, {0, 2, 1}},
    {{5, 6}, {0, 1}},
    {{1, 7, 1}, {2, 1, 0}},
    {{2, 1, 3, 2, 1, 2, 3, 2}, {7, 1, 5, 3, 0, 2, 6, 4}},
    {{0, 5}, {1, 0}},
    {{5, 0, 2}, {2, 0, 1}},
    {{}, {}},
};

TEST(Transpose, PermutesAxes) {
  for (const TransposeCase& c : kTransposes) {
    for (const DType dtype : kAll) {
      const auto inputs = tensors(any_tensor(c.shape, dtype));
      for (const std::string& device : test_devices()) {
        const Tensor y = run_one([&](const auto& x) { return ops::transpose(x[0], c.permutation); },
                                 inputs, {.device = device});
        std::vector<double> expected;
        for (std::int64_t i = 0; i < y.elements(); ++i) {
          const std::vector<std::int64_t> to = index_of(i, y.shape());
          std::vector<std::int64_t> from(to.size());
          for (std::size_t k = 0; k < to.size(); ++k) {
            from[static_cast<std::size_t>(c.permutation[k])] = to[k];
          }
          expected.push_back(inputs[0].at(flat_index(from, c.shape)));
        }
        EXPECT_EQ(to_doubles(y), expected) << c.shape << " " << dtype;
      }
    }
  }
}

TEST(Transpose, ReversesAxesByDefault) {
  const auto inputs = tensors(random_tensor({2, 3, 4}, float32, 1));
  const Tensor y = run_one([](const auto& x) { return ops::transpose(x[0]); }, inputs);
  EXPECT_EQ(y.shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(y.at(1), inputs[0].at(12));
}

// ---- concatenate ----------------------------------------------------------------------------

TEST(Concatenate, JoinsAlongAnAxis) {
  for (const DType dtype : kAll) {
    for (const int axis : {0, 1, -1}) {
      Shape shapes[] = {{4, 5, 6}, {4, 5, 6}, {4, 5, 6}};
      shapes[1].set(axis, 0);
      shapes[2].set(axis, 300);
      const auto inputs = tensors(any_tensor(shapes[0], dtype, 1), any_tensor(shapes[1], dtype, 2),
                                  any_tensor(shapes[2], dtype, 3));
      for (const std::string& device : test_devices()) {
        const Tensor y = run_one([&](const auto& x) { return ops::concatenate(x, axis); }, inputs,
                                 {.device = device});
        ASSERT_EQ(y.dtype(), dtype);
        const auto k = static_cast<std::size_t>(shapes[0].normalize_axis(axis));
        std::vector<double> expected;
        for (std::int64_t i = 0; i < y.elements(); ++i) {
          std::vector<std::int64_t> index = index_of(i, y.shape());
          std::size_t source = 0;
          while (index[k] >= shapes[source][axis]) index[k] -= shapes[source++][axis];
          expected.push_back(inputs[source].at(flat_index(index, shapes[source])));
        }
        EXPECT_EQ(to_doubles(y), expected) << dtype << " " << axis;
      }
    }
  }
}

TEST(Concatenate, PromotesItsInputs) {
  const auto inputs = tensors(Tensor::full({2}, 0.1, float32), Tensor::full({1}, 3, int32));
  const Tensor y = run_one([](const auto& x) { return ops::concatenate(x); }, inputs);
  EXPECT_EQ(y.dtype(), float32);
  EXPECT_EQ(to_doubles(y), (std::vector<double>{0.1f, 0.1f, 3}));
}

// ---- slice ----------------------------------------------------------------------------------

struct SliceCase {
  Shape shape;
  std::vector<std::int64_t> begin, size;
};

const SliceCase kSlices[] = {
    {{10}, {2}, {5}},
    {{40, 50, 3}, {3, 10, 0}, {20, 30, 3}},
    {{40, 50, 3}, {3, 0, 0}, {20, 50, -1}},
    {{6, 5, 4}, {0, 1, 2}, {-1, 3, 2}},
    {{6, 5, 4}, {5, 4, 3}, {1, -1, -1}},
    {{6, 5}, {2, 3}, {0, 2}},
    {{6, 5}, {6, 0}, {-1, -1}},
    {{2, 3, 2, 2, 3, 2, 2, 2}, {1, 1, 0, 1, 0, 0, 1, 0}, {1, 2, 2, 1, 2, 2, 1, 2}},
    {{}, {}, {}},
};

TEST(Slice, TakesABox) {
  for (const SliceCase& c : kSlices) {
    for (const DType dtype : kAll) {
      const auto inputs = tensors(any_tensor(c.shape, dtype));
      for (const std::string& device : test_devices()) {
        const Tensor y = run_one([&](const auto& x) { return ops::slice(x[0], c.begin, c.size); },
                                 inputs, {.device = device});
        std::vector<double> expected;
        for (std::int64_t i = 0; i < y.elements(); ++i) {
          std::vector<std::int64_t> index = index_of(i, y.shape());
          for (std::size_t k = 0; k < index.size(); ++k) index[k] += c.begin[k];
          expected.push_back(inputs[0].at(flat_index(index, c.shape)));
        }
        EXPECT_EQ(to_doubles(y), expected) << c.shape << " " << dtype;
      }
    }
  }
}

TEST(Slice, PutsItsGradientIntoZeros) {
  for (const SliceCase& c : kSlices) {
    for (const DType dtype : {float32, float16, bfloat16, float64}) {
      const auto inputs = tensors(random_tensor(c.shape, dtype, 1));
      const auto slice = [&](const auto& x) {
        return std::vector{ops::slice(x[0], c.begin, c.size)};
      };
      const Shape part = run(slice, inputs)[0].shape();
      const auto weights = tensors(random_tensor(part, dtype, 2));
      std::vector<double> expected(static_cast<std::size_t>(c.shape.elements()), 0.0);
      for (std::int64_t i = 0; i < part.elements(); ++i) {
        std::vector<std::int64_t> index = index_of(i, part);
        for (std::size_t k = 0; k < index.size(); ++k) index[k] += c.begin[k];
        expected[static_cast<std::size_t>(flat_index(index, c.shape))] = weights[0].at(i);
      }
      for (const std::string& device : test_devices()) {
        const auto gradient = gradients(slice, inputs, weights, {.device = device});
        EXPECT_EQ(to_doubles(gradient[0]), expected) << c.shape << " " << dtype;
      }
    }
  }
}

// ---- All ------------------------------------------------------------------------------------

TEST(Movement, HasTheGradientsOfFiniteDifferences) {
  expect_gradients(
      [](const auto& x) {
        return std::vector{ops::reshape(x[0], {2, 6}),
                           ops::transpose(x[0]),
                           ops::transpose(ops::reshape(x[0], {2, 2, 3}), {1, 2, 0}),
                           ops::concatenate({x[0], x[1], x[0]}, 1),
                           ops::slice(x[0], {1, 0}, {2, 2}),
                           ops::slice(x[1], {0, 1}, {-1, -1})};
      },
      tensors(random_tensor({4, 3}, float64, 1), random_tensor({4, 2}, float64, 2)));
}

TEST(Movement, MovesNanPayloadsUntouched) {
  const auto inputs = tensors(Tensor::full({3, 5}, NAN, float16));
  const auto y = run(
      [](const auto& x) {
        return std::vector{ops::transpose(x[0], {1, 0}), ops::slice(x[0], {0, 1}, {3, 2}),
                           ops::concatenate({x[0], x[0]})};
      },
      inputs);
  for (const Tensor& tensor : y) {
    for (const Float16 value : tensor.data<Float16>()) {
      EXPECT_EQ(value, inputs[0].data<Float16>()[0]);
    }
  }
}

TEST(Movement, GivesTheSameBitsForAnyNumberOfThreads) {
  const auto inputs = tensors(random_tensor({300, 7, 40}, float16, 1));
  const auto graph = [](const auto& x) {
    return std::vector{ops::transpose(x[0]), ops::transpose(x[0], {1, 0, 2}),
                       ops::slice(x[0], {10, 1, 3}, {250, 5, 30}), ops::concatenate({x[0], x[0]})};
  };
  const auto one = run(graph, inputs, {.threads = 1});
  const auto many = run(graph, inputs, {.threads = 4});
  for (std::size_t i = 0; i < one.size(); ++i) expect_identical(many[i], one[i]);
}

SymbolicTensor input(DType dtype, const Shape& shape) {
  static const auto graph = ir::Graph::create();
  return graph->tensor(graph->add_input("x", {shape, dtype}));
}

template <class Call>
std::string refusal(Call call) {
  return message_of<std::invalid_argument>([&] { (void)call(); });
}

TEST(Movement, InfersUnknownBatches) {
  const SymbolicTensor x = input(float16, {kUnknown, 4, 6});
  EXPECT_EQ(ops::reshape(x, {-1, 24}).shape(), (Shape{kUnknown, 24}));
  EXPECT_EQ(ops::reshape(x, {-1}).shape(), (Shape{kUnknown}));
  // Rows that were taken apart can be joined again.
  EXPECT_EQ(ops::reshape(ops::reshape(x, {-1, 6}), {-1, 4, 6}).shape(), (Shape{kUnknown, 4, 6}));
  EXPECT_EQ(ops::transpose(x, {0, 2, 1}).shape(), (Shape{kUnknown, 6, 4}));
  EXPECT_EQ(ops::concatenate({x, x}, 2).shape(), (Shape{kUnknown, 4, 12}));
  EXPECT_EQ(ops::concatenate({x, input(float16, {2, 4, 6})}, 0).shape(), (Shape{kUnknown, 4, 6}));
  EXPECT_EQ(ops::slice(x, {0, 1, 2}, {-1, 2, 3}).shape(), (Shape{kUnknown, 2, 3}));
}

TEST(Movement, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal([] {
              return ops::reshape(input(float32, {2, 3}), {4});
            }),
            "[reshape] expected 4 elements for [4]. Received: float32[2, 3].");
  EXPECT_EQ(refusal([] {
              return ops::reshape(input(float32, {2, 3}), {-1, 4});
            }),
            "[reshape] expected a value that fits into [None, 4]. Received: float32[2, 3].");
  EXPECT_EQ(refusal([] {
              return ops::reshape(input(float32, {2, 3}), {-1, -1});
            }),
            "[reshape] expected at most one extent -1 in [None, None]. Received: float32[2, 3].");
  EXPECT_EQ(refusal([] {
              return ops::reshape(input(float32, {kUnknown, 6}), {-1, 4});
            }),
            "[reshape] expected a batch that fits into [None, 4]. Received: float32[None, 6].");
  EXPECT_EQ(refusal([] {
              return ops::reshape(input(float32, {kUnknown, 6}), {2, 6});
            }),
            "[reshape] expected a batch that fits into [2, 6]. Received: float32[None, 6].");
  EXPECT_EQ(refusal([] {
              return ops::transpose(input(float32, {2, 3}), {0, 0});
            }),
            "[transpose] expected one value whose axes [0, 0] permutes. Received: float32[2, 3].");
  EXPECT_EQ(refusal([] {
              return ops::concatenate({input(float32, {2, 3}), input(float32, {3, 2})}, 1);
            }),
            "[concatenate] expected shapes that agree but along axis 1. Received: float32[2, 3] "
            "and float32[3, 2].");
  EXPECT_EQ(refusal([] { return ops::concatenate({}); }),
            "[concatenate] expected at least one input. Received: none.");
  EXPECT_EQ(refusal([] { return ops::slice(input(float32, {4}), {2}, {3}); }),
            "[slice] expected one value that contains begin [2], size [3]. Received: float32[4].");
  EXPECT_EQ(refusal([] { return ops::slice(input(float32, {kUnknown}), {1}, {-1}); }),
            "[slice] expected one value that contains begin [1], size [-1]. Received: "
            "float32[None].");
}

}  // namespace
}  // namespace demi
