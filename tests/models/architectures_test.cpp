#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "models/mlp.h"
#include "models/mnist_cnn.h"
#include "models/resnet20.h"
#include "models/training_run.h"
#include "models/vgg8.h"
#include "tests/support/layer_harness.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi::models {
namespace {

std::int64_t trainable_params(const Model& model) {
  std::int64_t count = 0;
  for (const Variable& variable : model.trainable_variables()) count += variable.shape().elements();
  return count;
}

TEST(Architectures, HaveTheirNumberOfParameters) {
  EXPECT_EQ(mnist_cnn().count_params(), 9 * 32 + 32 + 9 * 32 * 64 + 64 + 1600 * 128 + 128 + 1290);
  EXPECT_EQ(mlp().count_params(), 784 * 256 + 256 + 256 * 256 + 256 + 2570);
  // Convolutions 432 + 6 · 2304 + (4608 + 5 · 9216 + 512) + (18432 + 5 · 36864 + 2048), two numbers
  // per normalised channel, and 64 · 10 + 10.
  const std::int64_t convolutions =
      27 * 16 + 6 * 2304 + 4608 + 5 * 9216 + 512 + 18432 + 5 * 36864 + 2048;
  const std::int64_t channels = 7 * 16 + 7 * 32 + 7 * 64;
  EXPECT_EQ(trainable_params(resnet20({32, 32, 3})), convolutions + 2 * channels + 650);
  EXPECT_EQ(trainable_params(resnet20({28, 28, 1})), convolutions - 18 * 16 + 2 * channels + 650);
  EXPECT_EQ(vgg8({32, 32, 3}).count_params(),
            9 * (3 * 64 + 64 * 64 + 64 * 128 + 128 * 128 + 128 * 256 + 256 * 256) +
                2 * (64 + 128 + 256) + 4096 * 256 + 256 + 2570);
}

TEST(Architectures, AreFoundByName) {
  EXPECT_EQ(architecture_named("mlp").build, &mlp);
  EXPECT_EQ(
      testing::message_of<std::invalid_argument>([] { (void)architecture_named("mlq"); }),
      "[architecture_named] expected one of mnist_cnn, mlp, resnet20, vgg8. Received: 'mlq'.");
}

TEST(Architectures, GiveProbabilities) {
  for (const Architecture& architecture : architectures()) {
    for (const Shape& shape : {Shape{28, 28, 1}, Shape{32, 32, 3}}) {
      Model model = architecture.build(shape, 7);
      const Tensor y = model.predict(testing::random_tensor(shape.with_front(3), float32, 1));
      ASSERT_EQ(y.shape(), (Shape{3, 7})) << architecture.name;
      for (std::int64_t row = 0; row < 3; ++row) {
        double sum = 0;
        for (std::int64_t i = 0; i < 7; ++i) sum += y.at(7 * row + i);
        EXPECT_NEAR(sum, 1, 1e-5) << architecture.name;
      }
    }
  }
}

TEST(Architectures, TrainUnderEveryPolicy) {
  const testing::PolicyScope scope(global_policy());
  const Dataset data(testing::random_tensor({12, 28, 28, 1}, float32, 1, 0, 1),
                     testing::random_tensor({12}, int32, 2, 0, 10));
  for (const Architecture& architecture : architectures()) {
    for (const char* policy : {"float32", "mixed_float16", "mixed_bfloat16"}) {
      RunOptions options{.architecture = architecture, .policy = policy};
      options.epochs = 3;
      options.batch_size = 5;
      options.verbose = 0;
      const RunResult result = run_training(options, data, data);
      const std::vector<double>& loss = result.history.history.at("loss");
      EXPECT_LT(loss.back(), loss.front()) << architecture.name << " " << policy;
      EXPECT_TRUE(std::isfinite(result.test_loss));
      EXPECT_EQ(result.device, "cpu");
      EXPECT_GT(result.images_per_second, 0);
      EXPECT_GT(result.step_ms_median, 0);
      EXPECT_GT(result.peak_rss_bytes, 1'000'000u);
      EXPECT_EQ(result.epoch_seconds.size(), 3u);
    }
  }
}

}  // namespace
}  // namespace demi::models
