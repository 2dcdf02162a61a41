// Whole training runs that must agree: over threads to the bit, over policies within rounding.
#include <gtest/gtest.h>

#include <demi/demi.h>

#include "models/mlp.h"
#include "models/mnist_cnn.h"
#include "models/resnet20.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using Builder = Model (*)(const Shape&, int);

struct Trained {
  std::vector<Tensor> weights;
  double loss = 0;
};

/// `steps` training steps on random images whose brightness depends on their class.
Trained train(Builder build, const std::string& policy, int threads, int steps) {
  constexpr std::int64_t kSamples = 96, kClasses = 10;
  set_random_seed(7);
  set_global_policy(policy);
  Model model = build({28, 28, 1}, kClasses);
  set_global_policy("float32");
  Tensor x = testing::random_tensor({kSamples, 28, 28, 1}, float32, 1, 0, 0.5);
  Tensor y = testing::random_tensor({kSamples}, int32, 2, 0, kClasses);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const int label = y.data<std::int32_t>()[static_cast<std::size_t>(i)];
    for (float& value : x.data<float>().subspan(static_cast<std::size_t>(i) * 784, 784)) {
      value += 0.05f * static_cast<float>(label);
    }
  }
  model.compile({.optimizer = Adam({.learning_rate = 1e-3}),
                 .loss = "sparse_categorical_crossentropy",
                 .device = "cpu",
                 .threads = threads});
  // 96 = 2 · 40 + 16: the last batch of an epoch is a partial one.
  const History history =
      model.fit(x, y, {.batch_size = 40, .epochs = steps / 3, .seed = 3, .verbose = 0});
  return {model.get_weights(), history.last("loss")};
}

void expect_same_weights(const Trained& a, const Trained& b) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    testing::expect_identical(a.weights[i], b.weights[i], "weight " + std::to_string(i));
  }
}

TEST(TrainingAgreement, WeightsAreTheSameForAnyNumberOfThreads) {
  for (const Builder build : {&models::mnist_cnn, &models::mlp, &models::resnet20}) {
    for (const char* policy : {"float32", "mixed_float16"}) {
      const Trained one = train(build, policy, 1, 3);
      expect_same_weights(one, train(build, policy, 2, 3));
      expect_same_weights(one, train(build, policy, 4, 3));
    }
  }
}

TEST(TrainingAgreement, TheSameSeedGivesTheSameWeights) {
  expect_same_weights(train(&models::mlp, "mixed_float16", 2, 6),
                      train(&models::mlp, "mixed_float16", 2, 6));
}

TEST(TrainingAgreement, MixedPolicyTrainsLikeFloat32) {
  for (const Builder build : {&models::mnist_cnn, &models::mlp}) {
    const double expected = train(build, "float32", 2, 30).loss;
    EXPECT_LT(expected, 2.25) << "nothing was learnt";
    EXPECT_NEAR(train(build, "mixed_float16", 2, 30).loss, expected, 0.02 * expected);
    EXPECT_NEAR(train(build, "mixed_bfloat16", 2, 30).loss, expected, 0.06 * expected);
  }
}

TEST(TrainingAgreement, Float64IsTheReferenceOfFloat32) {
  const Trained single = train(&models::mnist_cnn, "float32", 2, 6);
  const Trained reference = train(&models::mnist_cnn, "float64", 2, 6);
  EXPECT_NEAR(single.loss, reference.loss, 1e-3 * reference.loss);
}

}  // namespace
}  // namespace demi
