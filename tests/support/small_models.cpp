#include "tests/support/small_models.h"

#include <cmath>

#include <gtest/gtest.h>

#include <demi/demi.h>

#include "tests/support/op_harness.h"

namespace demi::testing {

Dataset blobs(std::int64_t count, std::uint64_t seed) {
  Tensor x = random_tensor({count, 2}, float32, seed, -0.5, 0.5);
  Tensor y({count}, int32);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::int32_t>(i % 3);
    y.data<std::int32_t>()[static_cast<std::size_t>(i)] = label;
    x.data<float>()[static_cast<std::size_t>(2 * i)] += std::cos(2.1f * static_cast<float>(label));
    x.data<float>()[static_cast<std::size_t>(2 * i + 1)] +=
        std::sin(2.1f * static_cast<float>(label));
  }
  return {std::move(x), std::move(y)};
}

Model classifier(const std::string& policy) {
  set_global_policy(policy);
  set_random_seed(1);
  reset_layer_names();
  return Sequential({Input({2}), Dense({.units = 16, .activation = "relu"}),
                     Dense({.units = 3, .activation = "softmax"})});
}

Model compiled_classifier(const std::string& policy) {
  Model model = classifier(policy);
  model.compile({.optimizer = SGD({.learning_rate = 0.1}),
                 .loss = "sparse_categorical_crossentropy",
                 .metrics = {"accuracy"},
                 .device = "cpu"});
  return model;
}

FitOptions fit_options_with(const CallbackHandle& callback) {
  return {.batch_size = 8,
          .epochs = 2,
          .validation_data = blobs(24, 1),
          .seed = 3,
          .callbacks = {callback},
          .verbose = 0};
}

void expect_same_weights(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    expect_identical(actual[i], expected[i], "weight " + std::to_string(i));
  }
}

}  // namespace demi::testing
