#include <demi/ops/cross_entropy.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "src/ir/graph.h"
#include "tests/support/compare.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"
#include "tests/support/run_kernel.h"

namespace demi {
namespace {

using ops::CrossEntropyAttributes;
using testing::expect_close;
using testing::message_of;
using testing::random_tensor;
using testing::run_kernel;
using testing::to_doubles;

constexpr DType kFloats[] = {float32, float64, float16, bfloat16};

using Row = std::vector<double>;

/// -log of the probability of each class.
Row surprise(const Row& scores, bool from_logits) {
  Row result;
  double sum = 0;
  const double largest = *std::max_element(scores.begin(), scores.end());
  for (const double score : scores) sum += from_logits ? std::exp(score - largest) : score;
  for (const double score : scores) {
    result.push_back(from_logits ? std::log(sum) - (score - largest)
                                 : -std::log(std::clamp(score / sum, 1e-7, 1 - 1e-7)));
  }
  return result;
}

double binary_loss(double score, double target, bool from_logits) {
  if (from_logits)
    return std::log1p(std::exp(-std::abs(score))) + std::max(score, 0.0) - score * target;
  const double p = std::clamp(score, 1e-7, 1 - 1e-7);
  return -(target * std::log(p) + (1 - target) * std::log(1 - p));
}

Row row_of(const Tensor& tensor, std::int64_t row, std::int64_t columns) {
  Row result;
  for (std::int64_t i = 0; i < columns; ++i) result.push_back(tensor.at(row * columns + i));
  return result;
}

/// d loss(scores) / d scores by central differences.
Row differences(const Row& scores, const std::function<double(const Row&)>& loss) {
  Row result;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    constexpr double kStep = 1e-6;
    Row up = scores;
    Row down = scores;
    up[i] += kStep;
    down[i] -= kStep;
    result.push_back((loss(up) - loss(down)) / (2 * kStep));
  }
  return result;
}

Tensor scores_for(bool from_logits, const Shape& shape, DType dtype) {
  return from_logits ? random_tensor(shape, dtype, 1, -6, 6)
                     : random_tensor(shape, dtype, 1, 0.01, 0.9);
}

double tolerance_of(DType stored) {
  return stored == float64 ? 1e-7 : stored == float32 ? 2e-6 : 2 * testing::rounding_unit(stored);
}

TEST(SparseCrossEntropy, AgreesWithTheReferenceForEveryDtype) {
  constexpr std::int64_t kRows = 700;
  constexpr std::int64_t kClasses = 11;
  for (const bool from_logits : {false, true}) {
    for (const DType dtype : kFloats) {
      for (const DType label_dtype : {int32, int64, uint8}) {
        const Tensor scores = scores_for(from_logits, {kRows, kClasses}, dtype);
        const Tensor labels = random_tensor({kRows, 1}, label_dtype, 2, 0, kClasses);
        const Tensor dloss = random_tensor({kRows}, accumulation_dtype(dtype), 3);
        Row expected;
        Row gradient;
        for (std::int64_t row = 0; row < kRows; ++row) {
          const auto label = static_cast<std::size_t>(labels.at(row));
          const auto loss = [&](const Row& z) { return surprise(z, from_logits)[label]; };
          const Row z = row_of(scores, row, kClasses);
          expected.push_back(loss(z));
          for (const double d : differences(z, loss)) gradient.push_back(d * dloss.at(row));
        }
        const CrossEntropyAttributes attributes{from_logits};
        const Tensor loss =
            std::move(run_kernel("sparse_cross_entropy", attributes, {&scores, &labels})[0]);
        EXPECT_EQ(loss.dtype(), accumulation_dtype(dtype));
        EXPECT_EQ(loss.shape(), (Shape{kRows}));
        expect_close(loss, expected, dtype == float64 ? 1e-12 : 1e-6);
        for (const DType stored : {accumulation_dtype(dtype), float16}) {
          expect_close(run_kernel("sparse_cross_entropy_backward", attributes,
                                  {&dloss, &scores, &labels}, {.store = stored})[0],
                       gradient, tolerance_of(stored));
        }
      }
    }
  }
}

TEST(CrossEntropy, AgreesWithTheReferenceForEveryDtype) {
  constexpr std::int64_t kRows = 500;
  constexpr std::int64_t kClasses = 9;
  for (const bool from_logits : {false, true}) {
    for (const DType dtype : kFloats) {
      for (const DType target_dtype : {dtype, float32, uint8}) {
        const Tensor scores = scores_for(from_logits, {5, 100, kClasses}, dtype);
        const Tensor targets = random_tensor({5, 100, kClasses}, target_dtype, 2, 0, 2);
        const Tensor dloss = random_tensor({5, 100}, accumulation_dtype(dtype), 3);
        Row expected;
        Row gradient;
        for (std::int64_t row = 0; row < kRows; ++row) {
          const Row t = row_of(targets, row, kClasses);
          const auto loss = [&](const Row& z) {
            double sum = 0;
            const Row each = surprise(z, from_logits);
            for (std::size_t i = 0; i < each.size(); ++i) sum += t[i] * each[i];
            return sum;
          };
          const Row z = row_of(scores, row, kClasses);
          expected.push_back(loss(z));
          for (const double d : differences(z, loss)) gradient.push_back(d * dloss.at(row));
        }
        const CrossEntropyAttributes attributes{from_logits};
        const Tensor loss =
            std::move(run_kernel("cross_entropy", attributes, {&scores, &targets})[0]);
        EXPECT_EQ(loss.shape(), (Shape{5, 100}));
        expect_close(loss, expected, dtype == float64 ? 1e-12 : 1e-6);
        const DType stored = dtype;
        expect_close(run_kernel("cross_entropy_backward", attributes, {&dloss, &scores, &targets},
                                {.store = stored})[0],
                     gradient, 4 * tolerance_of(stored));
      }
    }
  }
}

TEST(BinaryCrossEntropy, AgreesWithTheReferenceForEveryDtype) {
  for (const bool from_logits : {false, true}) {
    for (const DType dtype : kFloats) {
      for (const DType target_dtype : {dtype, uint8, boolean}) {
        const Tensor scores = scores_for(from_logits, {9000}, dtype);
        const Tensor targets = random_tensor({9000}, uint8, 2, 0, 2).to(target_dtype);
        const Tensor dloss = random_tensor({9000}, accumulation_dtype(dtype), 3);
        Row expected;
        Row gradient;
        for (std::int64_t i = 0; i < 9000; ++i) {
          const auto loss = [&](const Row& z) {
            return binary_loss(z[0], targets.at(i), from_logits);
          };
          expected.push_back(loss({scores.at(i)}));
          gradient.push_back(dloss.at(i) * differences({scores.at(i)}, loss)[0]);
        }
        const CrossEntropyAttributes attributes{from_logits};
        expect_close(run_kernel("binary_cross_entropy", attributes, {&scores, &targets})[0],
                     expected, dtype == float64 ? 1e-12 : 1e-6);
        expect_close(run_kernel("binary_cross_entropy_backward", attributes,
                                {&dloss, &scores, &targets}, {.store = dtype})[0],
                     gradient, 2 * tolerance_of(dtype));
      }
    }
  }
}

TEST(CrossEntropy, IsFiniteForProbabilitiesOfExactlyZeroAndOne) {
  for (const DType dtype : kFloats) {
    const Tensor p = Tensor::from(std::vector<double>{1, 0, 0, 0, 0, 0}, {2, 3}).to(dtype);
    const Tensor labels = Tensor::from(std::vector<std::int32_t>{1, 2}, {2});
    const Tensor hot = Tensor::from(std::vector<float>{0, 1, 0, 0, 0, 1}, {2, 3});
    const Tensor ones = Tensor::full({2}, 1, accumulation_dtype(dtype));
    const Tensor many_ones = Tensor::full({2, 3}, 1, accumulation_dtype(dtype));
    const CrossEntropyAttributes attributes{};
    const double worst = -std::log(1e-7);
    expect_close(run_kernel("sparse_cross_entropy", attributes, {&p, &labels})[0], {worst, worst},
                 1e-6);
    expect_close(run_kernel("cross_entropy", attributes, {&p, &hot})[0], {worst, worst}, 1e-6);
    for (const double value :
         to_doubles(run_kernel("binary_cross_entropy", attributes, {&p, &hot})[0])) {
      EXPECT_TRUE(std::isfinite(value));
    }
    std::vector<Tensor> gradients;
    gradients.push_back(std::move(
        run_kernel("sparse_cross_entropy_backward", attributes, {&ones, &p, &labels})[0]));
    gradients.push_back(
        std::move(run_kernel("cross_entropy_backward", attributes, {&ones, &p, &hot})[0]));
    gradients.push_back(std::move(
        run_kernel("binary_cross_entropy_backward", attributes, {&many_ones, &p, &hot})[0]));
    for (const Tensor& gradient : gradients) {
      for (const double value : to_doubles(gradient)) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(SparseCrossEntropy, KeepsLargeIntegerLabelsExact) {
  // 2049 and 4999 are no float16 numbers.
  const Tensor scores = random_tensor({2, 5000}, float16, 4, -3, 3);
  const Tensor labels = Tensor::from(std::vector<std::int32_t>{2049, 4999}, {2});
  const Row expected = {surprise(row_of(scores, 0, 5000), true)[2049],
                        surprise(row_of(scores, 1, 5000), true)[4999]};
  expect_close(
      run_kernel("sparse_cross_entropy", CrossEntropyAttributes{true}, {&scores, &labels})[0],
      expected, 1e-6);
}

TEST(SparseCrossEntropy, GivesNanForLabelsOutOfRange) {
  const Tensor scores = random_tensor({3, 4}, float32, 5);
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{4, -1, 2}, {3});
  const Tensor dloss = Tensor::full({3}, 1, float32);
  for (const bool from_logits : {false, true}) {
    const CrossEntropyAttributes attributes{from_logits};
    const Tensor loss =
        std::move(run_kernel("sparse_cross_entropy", attributes, {&scores, &labels})[0]);
    EXPECT_TRUE(std::isnan(loss.at(0)) && std::isnan(loss.at(1)));
    const Tensor gradient = std::move(
        run_kernel("sparse_cross_entropy_backward", attributes, {&dloss, &scores, &labels})[0]);
    EXPECT_TRUE(std::isnan(gradient.at(0)) && std::isnan(gradient.at(7)));
  }
}

TEST(CrossEntropy, SurvivesExtremeLogits) {
  const Tensor logits = Tensor::from(std::vector<float>{1e30f, 0, -1e30f, 5, -INFINITY, 5}, {2, 3});
  const Tensor labels = Tensor::from(std::vector<std::int32_t>{2, 0}, {2});
  const Tensor hot = Tensor::from(std::vector<float>{0, 0, 1, 1, 0, 0}, {2, 3});
  const Row expected = {2e30, std::log(2.0)};
  const CrossEntropyAttributes attributes{true};
  expect_close(run_kernel("sparse_cross_entropy", attributes, {&logits, &labels})[0], expected,
               1e-6);
  expect_close(run_kernel("cross_entropy", attributes, {&logits, &hot})[0], expected, 1e-6);
  const Tensor z = Tensor::from(std::vector<float>{1e30f, -1e30f, 800, -800}, {4});
  const Tensor t = Tensor::from(std::vector<float>{1, 0, 0, 1}, {4});
  expect_close(run_kernel("binary_cross_entropy", attributes, {&z, &t})[0], {0, 0, 800, 800}, 1e-6);
}

TEST(CrossEntropy, AcceptsEmptyBatches) {
  const Tensor scores({0, 10}, float32);
  const Tensor labels({0}, int32);
  EXPECT_EQ(
      run_kernel("sparse_cross_entropy", CrossEntropyAttributes{}, {&scores, &labels})[0].shape(),
      (Shape{0}));
}

TEST(CrossEntropy, GivesTheSameBitsForAnyThreadCount) {
  const Tensor scores = random_tensor({3000, 13}, float16, 6, -4, 4);
  const Tensor labels = random_tensor({3000}, int32, 7, 0, 13);
  const CrossEntropyAttributes attributes{true};
  testing::expect_identical(
      run_kernel("sparse_cross_entropy", attributes, {&scores, &labels}, {.threads = 1})[0],
      run_kernel("sparse_cross_entropy", attributes, {&scores, &labels}, {.threads = 4})[0]);
}

// ---- The symbolic functions
// ----------------------------------------------------------------------

TEST(CrossEntropy, FunctionsHaveRightGradients) {
  for (const bool from_logits : {false, true}) {
    const auto scores = [&] { return scores_for(from_logits, {6, 5}, float64); };
    std::vector<Tensor> sparse;
    sparse.push_back(scores());
    sparse.push_back(random_tensor({6}, int32, 2, 0, 5));
    testing::expect_gradients(
        [&](const std::vector<SymbolicTensor>& in) -> std::vector<SymbolicTensor> {
          return {ops::sparse_categorical_crossentropy(in[1], in[0], from_logits)};
        },
        sparse);
    std::vector<Tensor> dense;
    dense.push_back(scores());
    dense.push_back(random_tensor({6, 5}, float64, 2, 0, 1));
    testing::expect_gradients(
        [&](const std::vector<SymbolicTensor>& in) -> std::vector<SymbolicTensor> {
          return {ops::categorical_crossentropy(in[1], in[0], from_logits),
                  ops::binary_crossentropy(in[1], in[0], from_logits)};
        },
        dense);
  }
}

TEST(CrossEntropy, LossesAreFloat32UnderAFloat16Policy) {
  const auto graph = ir::Graph::create();
  const auto scores = graph->tensor(graph->add_input("scores", {{Shape::kUnknown, 4}, float16}));
  const auto labels = graph->tensor(graph->add_input("labels", {{Shape::kUnknown}, uint8}));
  const auto loss = ops::sparse_categorical_crossentropy(labels, scores);
  EXPECT_EQ(loss.dtype(), float32);
  EXPECT_EQ(loss.shape(), (Shape{Shape::kUnknown}));
}

TEST(CrossEntropy, RefusesMisuse) {
  const auto graph = ir::Graph::create();
  const auto scores = graph->tensor(graph->add_input("scores", {{8, 4}, float32}));
  const auto labels = graph->tensor(graph->add_input("labels", {{8}, float32}));
  const auto short_labels = graph->tensor(graph->add_input("labels", {{7}, int32}));
  const auto refused = [&](const auto& f) { return message_of<std::invalid_argument>(f); };
  EXPECT_EQ(refused([&] { (void)ops::sparse_categorical_crossentropy(labels, scores); }),
            "[sparse_cross_entropy] expected scores [n, ..., classes] and integer labels [n, ...]. "
            "Received: float32[8, 4] and float32[8].");
  EXPECT_EQ(refused([&] { (void)ops::sparse_categorical_crossentropy(short_labels, scores); }),
            "[sparse_cross_entropy] expected scores [n, ..., classes] and integer labels [n, ...]. "
            "Received: float32[8, 4] and int32[7].");
  EXPECT_EQ(refused([&] { (void)ops::categorical_crossentropy(labels, scores); }),
            "[cross_entropy] expected scores [n, ..., classes] and targets of the same shape. "
            "Received: float32[8, 4] and float32[8].");
}

}  // namespace
}  // namespace demi
