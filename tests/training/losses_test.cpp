#include <demi/losses.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <demi/dataset.h>
#include <demi/metrics.h>
#include <demi/ops/binary.h>
#include <demi/ops/reduction.h>
#include <demi/ops/unary.h>

#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using testing::expect_close;
using testing::message_of;

/// The values of a loss or metric for y_true and y_pred.
template <class Spec>
Tensor value_of(const Spec& spec, const Tensor& y_true, const Tensor& y_pred) {
  std::vector<Tensor> results =
      testing::run([&](const auto& inputs) { return std::vector{spec(inputs[0], inputs[1])}; },
                   tensors(y_true.clone(), y_pred.clone()));
  return std::move(results[0]);
}

template <class Spec>
std::string error_of(const Spec& spec, const Tensor& y_true, const Tensor& y_pred) {
  return message_of<std::invalid_argument>([&] { (void)value_of(spec, y_true, y_pred); });
}

Tensor floats(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

Tensor labels(const std::vector<std::int32_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

const std::vector<float> kScores = {0.1f, 0.7f, 0.2f, 0.5f, 0.25f, 0.25f};

TEST(Losses, SparseCrossEntropyTakesLabelsWithAndWithoutAxis) {
  const std::vector<double> expected = {-std::log(0.7), -std::log(0.25)};
  const LossSpec loss = "sparse_categorical_crossentropy";
  expect_close(value_of(loss, labels({1, 2}, {2}), floats(kScores, {2, 3})), expected, 1e-5);
  expect_close(value_of(loss, labels({1, 2}, {2, 1}), floats(kScores, {2, 3})), expected, 1e-5);
}

TEST(Losses, SparseCrossEntropyFromLogits) {
  const std::vector<float> z = {1, 2, 3, -1, 0, 4};
  const auto loss_of = [&](int row, int label) {
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += std::exp(z[static_cast<std::size_t>(3 * row + i)]);
    return std::log(sum) - z[static_cast<std::size_t>(3 * row + label)];
  };
  const LossSpec loss = SparseCategoricalCrossentropy({.from_logits = true});
  expect_close(value_of(loss, labels({0, 2}, {2}), floats(z, {2, 3})),
               {loss_of(0, 0), loss_of(1, 2)}, 1e-5);
}

TEST(Losses, DenseCrossEntropySmoothsLabels) {
  const Tensor one_hot = floats({0, 1, 0, 0, 0, 1}, {2, 3});
  const Tensor scores = floats(kScores, {2, 3});
  expect_close(value_of(LossSpec("categorical_crossentropy"), one_hot, scores),
               {-std::log(0.7), -std::log(0.25)}, 1e-5);
  const auto smoothed = [](double hit, double a, double b) {
    return -0.8 * std::log(hit) - 0.1 * std::log(a) - 0.1 * std::log(b);
  };
  // 1 becomes 0.7 + 0.3 / 3 = 0.8, 0 becomes 0.1.
  expect_close(
      value_of(LossSpec(CategoricalCrossentropy({.label_smoothing = 0.3})), one_hot, scores),
      {smoothed(0.7, 0.1, 0.2), smoothed(0.25, 0.5, 0.25)}, 1e-5);
}

TEST(Losses, BinaryCrossEntropySmoothsLabels) {
  const Tensor targets = labels({1, 0}, {2});
  const Tensor scores = floats({0.8f, 0.4f}, {2, 1});
  const Tensor plain = value_of(LossSpec("binary_crossentropy"), targets, scores);
  expect_close(plain, {-std::log(0.8), -std::log(0.6)}, 1e-5);
  const auto smoothed = [](double p, double y) {
    return -y * std::log(p) - (1 - y) * std::log(1 - p);
  };
  expect_close(value_of(LossSpec(BinaryCrossentropy({.label_smoothing = 0.2})), targets, scores),
               {smoothed(0.8, 0.9), smoothed(0.4, 0.1)}, 1e-5);
}

TEST(Losses, SquaredAndAbsoluteError) {
  const Tensor y_true = floats({1, 2, 3}, {3});
  const Tensor y_pred = floats({1.5f, 0, 3}, {3, 1});
  const auto flat = [&](const char* name) { return value_of(LossSpec(name), y_true, y_pred); };
  expect_close(flat("mse"), {0.25, 4, 0}, 1e-6);
  expect_close(flat("mean_squared_error"), {0.25, 4, 0}, 1e-6);
  expect_close(flat("mae"), {0.5, 2, 0}, 1e-6);
  EXPECT_EQ(flat("mse").shape().elements(), 3) << "[n] and [n, 1] must not become [n, n]";
}

TEST(Losses, AcceptsFunctions) {
  const LossSpec loss = [](const SymbolicTensor& y_true, const SymbolicTensor& y_pred) {
    return ops::mean(ops::square(y_true - y_pred));
  };
  EXPECT_EQ(loss.name(), "custom_loss");
  expect_close(value_of(loss, floats({1, 2}, {2}), floats({2, 4}, {2})), {2.5}, 1e-6);
  const LossSpec indices(
      "by_class", [](const auto& a, const auto& b) { return a * b; }, TargetKind::kClassIndices);
  EXPECT_EQ(indices.target(), TargetKind::kClassIndices);
  EXPECT_EQ(indices.name(), "by_class");
  EXPECT_FALSE(LossSpec());
}

TEST(Losses, SuggestNames) {
  const std::string message =
      message_of<std::invalid_argument>([] { LossSpec("sparse_categorical_crosentropy"); });
  EXPECT_NE(message.find("[loss] expected one of 'sparse_categorical_crossentropy'"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("Did you mean 'sparse_categorical_crossentropy'?"), std::string::npos)
      << message;
  EXPECT_NE(message_of<std::invalid_argument>([] {
              MetricSpec("acuracy");
            }).find("Did you mean 'accuracy'?"),
            std::string::npos);
}

TEST(Losses, ExplainTargetsThatDoNotFit) {
  const Tensor scores = floats(kScores, {2, 3});
  EXPECT_EQ(error_of(LossSpec("sparse_categorical_crossentropy"), floats(kScores, {2, 3}), scores),
            "[sparse_categorical_crossentropy] expected integer labels [2] for predictions [2, 3]. "
            "Received: float32[2, 3]. For one-hot targets use categorical_crossentropy.");
  EXPECT_EQ(error_of(LossSpec("categorical_crossentropy"), labels({0, 1}, {2}), scores),
            "[categorical_crossentropy] expected targets of the shape of the prediction, [2, 3]. "
            "Received: int32[2]. For integer class labels use sparse_categorical_crossentropy.");
  EXPECT_NE(error_of(LossSpec("mse"), floats({1, 2, 3}, {3}), scores).find("Received: float32[3]"),
            std::string::npos);
  EXPECT_THROW(
      (void)value_of(LossSpec(CategoricalCrossentropy({.label_smoothing = 2})), scores, scores),
      std::invalid_argument);
}

TEST(Metrics, AccuracyIsChosenByShape) {
  const MetricSpec accuracy = "accuracy";
  const Tensor scores = floats({0.1f, 0.7f, 0.2f, 0.5f, 0.25f, 0.25f}, {2, 3});
  expect_close(value_of(accuracy, labels({1, 2}, {2}), scores), {1, 0}, 0);
  expect_close(value_of(accuracy, labels({2, 0}, {2, 1}), scores), {0, 1}, 0);
  expect_close(value_of(accuracy, floats({0, 1, 0, 0, 0, 1}, {2, 3}), scores), {1, 0}, 0);
  // Binary: y_pred has one value per sample; exactly 0.5 is not above the threshold.
  expect_close(value_of(accuracy, labels({1, 1, 0}, {3}), floats({0.9f, 0.5f, 0.2f}, {3, 1})),
               {1, 0, 1}, 0);
  expect_close(value_of(MetricSpec(BinaryAccuracy({.threshold = 0.1})), labels({1, 1, 0}, {3}),
                        floats({0.9f, 0.5f, 0.2f}, {3})),
               {1, 1, 0}, 0);
}

TEST(Metrics, AccuracyComparesLargeLabelsExactly) {
  // 2049 and 4999 are not float16 numbers; labels never become floating.
  const std::int64_t classes = 5000;
  std::vector<float> scores(static_cast<std::size_t>(2 * classes), 0.0f);
  scores[2049] = 1;
  scores[static_cast<std::size_t>(classes + 4999)] = 1;
  const Tensor half = floats(scores, {2, classes}).to(float16);
  expect_close(value_of(MetricSpec("accuracy"), labels({2049, 4999}, {2}), half), {1, 1}, 0);
  expect_close(value_of(MetricSpec("accuracy"), labels({2048, 4998}, {2}), half), {0, 0}, 0);
}

TEST(Metrics, TopKCountsBetterScores) {
  const Tensor scores = floats({0.1f, 0.2f, 0.3f, 0.4f, -INFINITY, 1, 0, -1}, {2, 4});
  const Tensor targets = floats({0, 1, 0, 0, 0, 0, 0, 1}, {2, 4});
  const auto top = [&](int k) {
    return value_of(MetricSpec(TopKCategoricalAccuracy({.k = k})), targets, scores);
  };
  expect_close(top(1), {0, 0}, 0);
  expect_close(top(2), {0, 0}, 0);
  expect_close(top(3), {1, 1}, 0);
  expect_close(top(4), {1, 1}, 0);
  EXPECT_THROW((void)top(0), std::invalid_argument);
}

TEST(Metrics, TakesLossesByNameAndFunctions) {
  const MetricSpec mae = "mae";
  EXPECT_EQ(mae.name(), "mae");
  EXPECT_EQ(mae.on_output(1).output(), 1);
  EXPECT_EQ(mae.output(), -1);
  expect_close(value_of(mae, floats({1, 2}, {2}), floats({2, 4}, {2})), {1, 2}, 1e-6);
  const MetricSpec custom("bias", [](const auto& t, const auto& p) { return p - t; });
  EXPECT_EQ(custom.name(), "bias");
  expect_close(value_of(custom, floats({1, 2}, {2}), floats({2, 4}, {2})), {1, 2}, 1e-6);
}

}  // namespace
}  // namespace demi
