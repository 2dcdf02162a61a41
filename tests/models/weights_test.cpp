// get_weights, set_weights and weight files.
#include <algorithm>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <demi/layers/batch_normalization.h>
#include <demi/layers/dense.h>
#include <demi/layers/input.h>
#include <demi/model.h>

#include "src/io/safetensors.h"
#include "tests/support/layer_harness.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"
#include "tests/support/paths.h"

namespace demi::testing {
namespace {

Sequential make_model(const DTypePolicy& policy, std::int64_t units = 3) {
  const PolicyScope scope(policy);
  return Sequential({Input({4}), Dense({.units = units}), BatchNormalization(),
                     Dense({.units = 2, .name = "head"})});
}

void expect_same_weights(const Model& a, const Model& b) {
  const std::vector<Tensor> left = a.get_weights();
  const std::vector<Tensor> right = b.get_weights();
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(to_doubles(left[i]), to_doubles(right[i]));
  }
}

TEST(Weights, SurviveAFileUnderEveryPolicy) {
  const TemporaryFolder file_folder;
  const std::string file = (file_folder.path() / "weights.safetensors").string();
  const Model source = make_model("mixed_float16");
  source.save_weights(file);
  for (const char* policy : {"float32", "mixed_float16", "mixed_bfloat16", "float64"}) {
    SCOPED_TRACE(policy);
    Model target = make_model(policy);
    target.load_weights(file);
    expect_same_weights(source, target);
  }
}

TEST(Weights, KeysDoNotDependOnOtherModels) {
  const TemporaryFolder first_folder;
  const std::string first = (first_folder.path() / "first.safetensors").string();
  const TemporaryFolder second_folder;
  const std::string second = (second_folder.path() / "second.safetensors").string();
  reset_layer_names();
  make_model("float32").save_weights(first);
  make_model("float32").save_weights(second);
  std::vector<std::string> keys;
  for (const auto& [name, tensor] : io::read_safetensors(second).tensors) {
    keys.push_back(name);
    EXPECT_EQ(tensor.dtype(), float32);
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"batch_normalization/beta", "batch_normalization/gamma",
                                            "batch_normalization/moving_mean",
                                            "batch_normalization/moving_variance", "dense/bias",
                                            "dense/kernel", "head/bias", "head/kernel"}));
  for (const auto& [name, tensor] : io::read_safetensors(first).tensors) {
    EXPECT_NE(std::find(keys.begin(), keys.end(), name), keys.end());
  }
}

TEST(Weights, AutomaticNamesGiveWayToChosenOnes) {
  const TemporaryFolder file_folder;
  const std::string file = (file_folder.path() / "names.safetensors").string();
  Sequential model({Input({2}), Dense({.units = 2}), Dense({.units = 2, .name = "dense_extra"}),
                    Dense({.units = 2})});
  model.save_weights(file);
  const auto tensors = io::read_safetensors(file).tensors;
  EXPECT_EQ(tensors.count("dense/kernel"), 1u);
  EXPECT_EQ(tensors.count("dense_1/kernel"), 1u);
  EXPECT_EQ(tensors.count("dense_extra/kernel"), 1u);
}

TEST(Weights, KeysFollowTheOrderOfCreation) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "weights.safetensors").string();
  const SymbolicTensor x = Input({2});
  Dense first({.units = 3, .bias_initializer = "ones"});
  Dense second({.units = 2});
  const Model model(x, first(second(x)));
  model.save_weights(file);
  const auto tensors = io::read_safetensors(file).tensors;
  EXPECT_EQ(tensors.at("dense/bias").shape(), (Shape{3}));
  EXPECT_EQ(tensors.at("dense_1/bias").shape(), (Shape{2}));
  Model copy = Model::from_json(model.to_json());
  copy.load_weights(file);
  expect_same_weights(model, copy);
}

TEST(Weights, LoadingIsAllOrNothing) {
  const TemporaryFolder file_folder;
  const std::string file = (file_folder.path() / "mismatch.safetensors").string();
  const SymbolicTensor x = Input({4});
  const Model source(
      x, Dense({.units = 2, .name = "tail"})(Dense({.units = 5, .name = "dense_1"})(x)));
  source.save_weights(file);
  Model target = make_model("float32");
  const std::vector<Tensor> before = target.get_weights();
  const std::string message = message_of<std::invalid_argument>([&] { target.load_weights(file); });
  EXPECT_EQ(
      message,
      "[load_weights] expected the weights of this model in " + file +
          ". Received: 'dense/kernel' is [4, 3] in the model and float32[4, 5] in the file; "
          "'dense/bias' is [3] in the model and float32[5] in the file; missing from the file: "
          "'batch_normalization/gamma', 'batch_normalization/beta', "
          "'batch_normalization/moving_mean', 'batch_normalization/moving_variance', "
          "'head/kernel', 'head/bias'; unknown to the model: 'tail/bias', 'tail/kernel'.");
  const std::vector<Tensor> after = target.get_weights();
  for (std::size_t i = 0; i < before.size(); ++i) expect_identical(after[i], before[i]);
}

TEST(Weights, RefusesFilesThatAreNone) {
  Model model = make_model("float32");
  EXPECT_THROW(model.load_weights("/nonexistent/weights.safetensors"), std::runtime_error);
  const TemporaryFolder file_folder;
  const std::string file = (file_folder.path() / "broken.safetensors").string();
  std::ofstream(file) << "not weights";
  EXPECT_THROW(model.load_weights(file), std::invalid_argument);
}

TEST(Weights, AreSetTogether) {
  Model source = make_model("float32");
  Model target = make_model("float64");
  target.set_weights(source.get_weights());
  expect_same_weights(source, target);
  EXPECT_EQ(target.get_weights()[0].dtype(), float64);

  std::vector<Tensor> weights = source.get_weights();
  weights.pop_back();
  EXPECT_EQ(message_of<std::invalid_argument>([&] { target.set_weights(weights); }),
            "[set_weights] expected 8 tensors. Received: 7.");
  weights.push_back(Tensor({3}, float32));
  EXPECT_NE(message_of<std::invalid_argument>([&] {
              target.set_weights(weights);
            }).find("expected 'head/bias' of shape [2]. Received: [3]."),
            std::string::npos);
  expect_same_weights(source, target);
}

}  // namespace
}  // namespace demi::testing
