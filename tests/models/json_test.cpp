// Architectures as JSON, against what real Keras writes (tests/golden/make_keras_models.py).
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <demi/layers/activation.h>
#include <demi/layers/add.h>
#include <demi/layers/dense.h>
#include <demi/layers/input.h>
#include <demi/model.h>
#include <demi/ops/unary.h>

#include "src/io/safetensors.h"
#include "src/training/model_impl.h"
#include "tests/support/file_content.h"
#include "tests/support/layer_harness.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"
#include "tests/support/paths.h"

namespace demi::testing {
namespace {

std::string refusal(const std::function<void()>& call) {
  return message_of<std::invalid_argument>(call);
}

std::string name_of(const Config& layer) {
  return layer.at("config").at("name").as_string();
}

/// Everything that `ours` says must be in `theirs`, which may say more. Layers are found by name.
void expect_contained(const Config& ours, const Config& theirs, const std::string& where) {
  if (ours.is_object() && theirs.is_object()) {
    for (const auto& [key, value] : ours.entries()) {
      const Config* other = theirs.find(key);
      ASSERT_NE(other, nullptr) << where << "." << key;
      expect_contained(value, *other, where + "." + key);
    }
  } else if (where.ends_with(".config.layers")) {
    ASSERT_EQ(ours.as_list().size(), theirs.as_list().size());
    for (const Config& layer : ours.as_list()) {
      for (const Config& other : theirs.as_list()) {
        if (name_of(layer) == name_of(other)) {
          expect_contained(layer, other, where + "." + name_of(layer));
        }
      }
    }
  } else if (ours.is_list() && theirs.is_list()) {
    ASSERT_EQ(ours.as_list().size(), theirs.as_list().size()) << where;
    for (std::size_t i = 0; i < ours.as_list().size(); ++i) {
      expect_contained(ours.as_list()[i], theirs.as_list()[i], where);
    }
  } else if (ours.is_number() && theirs.is_number()) {
    EXPECT_EQ(ours.as_number(), theirs.as_number()) << where;
  } else {
    EXPECT_EQ(ours.to_json(), theirs.to_json()) << where;
  }
}

std::map<std::string, Shape> output_shapes(const Model& model) {
  std::map<std::string, Shape> shapes;
  const LayerGraph& graph = model.impl().graph();
  for (const LayerGraph::Call& call : graph.calls) {
    shapes.emplace(call.layer->name(), graph.type(call.outputs[0]).shape);
  }
  return shapes;
}

void expect_like_keras(const std::string& file) {
  const Config golden = Config::parse(content_of(golden_path(file)));
  const Model model = Model::from_json(golden.at("model").to_json());

  EXPECT_EQ(model.count_params(), golden.at("params").as_integer());
  std::int64_t fixed = 0;
  for (const Variable& variable : model.non_trainable_variables()) {
    fixed += variable.shape().elements();
  }
  EXPECT_EQ(fixed, golden.at("non_trainable_params").as_integer());
  const auto shapes = output_shapes(model);
  const Config::List& layers = golden.at("layers").as_list();
  EXPECT_EQ(model.layers().size(), layers.size());
  for (const Config& layer : layers) {
    const std::string& name = layer.at("name").as_string();
    EXPECT_EQ(model.get_layer(name)->count_params(), layer.at("params").as_integer()) << name;
    std::vector<std::int64_t> extents;
    for (const Config& extent : layer.at("output_shape").as_list()) {
      extents.push_back(extent.is_null() ? Shape::kUnknown : extent.as_integer());
    }
    EXPECT_EQ(shapes.at(name), Shape(extents)) << name;
  }

  const std::string json = model.to_json();
  expect_contained(Config::parse(json), golden.at("model"), "");
  EXPECT_EQ(Model::from_json(json).to_json(), json);
}

TEST(ModelJson, ReadsAndWritesKerasFunctional) {
  expect_like_keras("keras_functional.json");
}

TEST(ModelJson, ReadsAndWritesKerasSequential) {
  expect_like_keras("keras_sequential.json");
}

TEST(ModelJson, ComputesWhatKerasComputes) {
  const Config golden = Config::parse(content_of(golden_path("keras_functional.json")));
  const auto values =
      io::read_safetensors(golden_path("keras_functional_values.safetensors")).tensors;
  std::vector<Tensor> inputs;
  inputs.push_back(values.at("input0").clone());
  inputs.push_back(values.at("input1").clone());
  Model model = Model::from_json(golden.at("model").to_json());
  model.load_weights(golden_path("keras_functional_weights.safetensors").string());
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor& expected = values.at("output" + std::to_string(i));
    const Tensor actual = predict(model, inputs, i);
    ASSERT_EQ(actual.shape(), expected.shape());
    expect_close(actual, to_doubles(expected), 2e-6, 1, "output " + std::to_string(i));
  }
}

TEST(ModelJson, KeepsPoliciesWhateverTheGlobalOne) {
  std::string json;
  {
    const PolicyScope scope("mixed_float16");
    json = Sequential({Input({4}), Dense({.units = 3}), Dense({.units = 2, .dtype = "float32"})})
               .to_json();
  }
  const Model model = Model::from_json(json);
  EXPECT_EQ(model.layers()[0]->dtype_policy().name(), "mixed_float16");
  EXPECT_EQ(model.layers()[1]->dtype_policy().name(), "float32");
}

TEST(ModelJson, KeepsAnUnbuiltSequential) {
  const Sequential model({Dense({.units = 3})});
  const Model copy = Model::from_json(model.to_json());
  EXPECT_FALSE(copy.built());
  EXPECT_EQ(copy.to_json(), model.to_json());
}

TEST(ModelJson, KeepsFrozenLayers) {
  Dense layer({.units = 3, .trainable = false});
  const Model copy = Model::from_json(Sequential({Input({2}), layer}).to_json());
  EXPECT_FALSE(copy.layers()[0]->trainable());
  EXPECT_TRUE(copy.trainable_variables().empty());
}

class Power : public LayerOf<Power> {
 public:
  explicit Power(double exponent) : LayerOf({.class_name = "TestPower"}), exponent_(exponent) {}
  SymbolicTensor call(const SymbolicTensor& x, const CallContext&) override {
    return exponent_ == 2 ? ops::square(x) : x;
  }
  [[nodiscard]] Config get_config() const override {
    return Layer::get_config().set("exponent", exponent_);
  }

 private:
  double exponent_;
};

TEST(ModelJson, MakesRegisteredLayers) {
  const Sequential model({Input({2}), Power(2)});
  const std::string json = model.to_json();
  EXPECT_NE(refusal([&] { (void)Model::from_json(json); }).find("register_layer"),
            std::string::npos);
  register_layer("TestPower", [](const Config& config) {
    return std::make_shared<Power>(config.at("exponent").as_number());
  });
  const Model copy = Model::from_json(json);
  EXPECT_EQ(copy.layers()[0]->get_config().at("exponent").as_number(), 2);
  EXPECT_EQ(copy.layers()[0]->name(), model.layers()[0]->name());
  EXPECT_THROW(register_layer("TestPower", nullptr), std::invalid_argument);
  EXPECT_THROW(register_layer("Dense", nullptr), std::invalid_argument);
}

TEST(ModelJson, SaysWhatItCannotWrite) {
  const SymbolicTensor x = Input({2});
  EXPECT_EQ(refusal([&] { (void)Model(x, ops::square(Activation("relu")(x))).to_json(); }),
            "[to_json] expected layers alone; put ops into a layer of your own. Received: 'square' "
            "used outside of layers.");
  const ActivationSpec own = [](const SymbolicTensor& value) { return ops::square(value); };
  EXPECT_THROW((void)Sequential({Input({2}), Activation(own)}).to_json(), std::invalid_argument);
}

TEST(ModelJson, RefusesWhatItDoesNotKnow) {
  const auto replaced = [](const std::string& from, const std::string& to) {
    std::string json =
        Config::parse(content_of(golden_path("keras_sequential.json"))).at("model").to_json();
    const std::size_t place = json.find(from);
    EXPECT_NE(place, std::string::npos);
    return json.replace(place, from.size(), to);
  };
  EXPECT_THROW((void)Model::from_json("{"), std::invalid_argument);
  EXPECT_NE(
      refusal([&] {
        (void)Model::from_json(replaced("\"class_name\":\"Dense\"", "\"class_name\":\"Dens\""));
      }).find("Did you mean 'Dense'?"),
      std::string::npos);
  EXPECT_NE(refusal([&] {
              (void)Model::from_json(replaced("channels_last", "channels_first"));
            }).find("channels_last"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              (void)Model::from_json(
                  replaced("\"kernel_constraint\":null", "\"kernel_constraint\":\"max_norm\""));
            }).find("kernel_constraint"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              (void)Model::from_json(
                  replaced("\"class_name\":\"Sequential\"", "\"class_name\":\"Bidirectional\""));
            }).find("Functional"),
            std::string::npos);
}

TEST(ModelJson, KeepsTheOrderOfLayers) {
  // The second call of a layer is needed before layers that stand behind others.
  const SymbolicTensor x = Input({2});
  Dense shared({.units = 2, .name = "s"});
  SymbolicTensor y = Dense({.units = 2, .name = "t"})(shared(x));
  y = Dense({.units = 2, .name = "u"})(shared(y));
  const Model model(x, Add()({y, Dense({.units = 2, .name = "v"})(x)}));
  const Model copy = Model::from_json(model.to_json());
  for (std::size_t i = 0; i < model.layers().size(); ++i) {
    EXPECT_EQ(copy.layers()[i]->name(), model.layers()[i]->name());
  }
}

TEST(ModelJson, RefusesCallsThatNeedEachOther) {
  const SymbolicTensor x = Input({2}, {.name = "x"});
  std::string json =
      Model(x, Dense({.units = 2, .name = "b"})(Dense({.units = 2, .name = "a"})(x))).to_json();
  const std::string history = R"("keras_history":["x",0,0])";
  json.replace(json.find(history), history.size(), R"("keras_history":["b",0,0])");
  EXPECT_NE(refusal([&] { (void)Model::from_json(json); }).find("need each other"),
            std::string::npos);
}

}  // namespace
}  // namespace demi::testing
