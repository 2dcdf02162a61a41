// Fusions, each a small rewrite that fires wherever its pattern stands. The patterns are tried
// until none fires any more.

#include <algorithm>
#include <array>

#include <demi/ops/batch_norm.h>
#include <demi/ops/conv2d.h>
#include <demi/ops/matmul.h>
#include <demi/ops/pooling.h>

#include "src/ir/op_registry.h"
#include "src/ir/structural_zeros.h"
#include "src/passes/fusions.h"
#include "src/passes/passes.h"

namespace demi::passes {
namespace {

using ops::Activation;

const ir::OpDef& op(std::string_view name) {
  return ir::OpRegistry::instance().find(name);
}

class Fuse {
 public:
  Fuse(ir::Graph& graph, const Capabilities& capabilities)
      : graph_(graph), capabilities_(capabilities) {}

  void run() {
    using Pattern = bool (Fuse::*)(ir::NodeId);
    constexpr Pattern kPatterns[] = {
        &Fuse::relu_backward_through_pool,    &Fuse::bias_into_product,  &Fuse::relu_into_producer,
        &Fuse::relu_backward_into_batch_norm, &Fuse::pool_into_conv,     &Fuse::relu_into_pool,
        &Fuse::conv_backward_from_scattered,  &Fuse::sum_before_scatter,
    };
    for (bool changed = true; changed;) {
      changed = false;
      readers_ = graph_.readers();
      const std::vector<ir::NodeId> order = graph_.order();
      for (const ir::NodeId id : order) {
        for (const Pattern pattern : kPatterns) {
          if (!is_placed(id) || !(this->*pattern)(id)) continue;
          changed = true;
          readers_ = graph_.readers();
        }
      }
    }
  }

 private:
  [[nodiscard]] bool is_placed(ir::NodeId id) const {
    return std::find(graph_.order().begin(), graph_.order().end(), id) != graph_.order().end();
  }

  /// The only node that reads `value`, or -1 if several do or the value is a result of the graph.
  [[nodiscard]] ir::NodeId only_reader(ir::ValueId value) const {
    const std::vector<ir::NodeId>& readers = readers_[static_cast<std::size_t>(value)];
    const bool is_output =
        std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                    [&](const ir::GraphOutput& output) { return output.value == value; });
    return readers.size() == 1 && !is_output ? readers.front() : -1;
  }

  [[nodiscard]] const ir::Node* producer_if(ir::ValueId value, std::string_view name) const {
    const ir::Node& node = graph_.producer(value);
    return node.op->name == name ? &node : nullptr;
  }

  /// relu_backward(max_pool2d_backward(d, index), x) = max_pool2d_backward(relu_backward(d, y),
  /// index) where y, index = max_pool2d(x): where a gradient arrives, x is y. x need not be kept
  /// any more.
  bool relu_backward_through_pool(ir::NodeId id) {
    const ir::Node node = graph_.node(id);
    const bool any_use = capabilities_.conv2d_max_pool || capabilities_.max_pool_relu;
    if (node.op->name != "relu_backward" || !any_use) return false;
    const ir::Node* pool_backward = producer_if(node.inputs[0], "max_pool2d_backward");
    if (pool_backward == nullptr || only_reader(node.inputs[0]) != id) return false;
    const ir::Node* pool = producer_if(pool_backward->inputs[1], "max_pool2d");
    if (pool == nullptr || pool->inputs[0] != node.inputs[1]) return false;
    if (graph_.type(pool->outputs[0]) != graph_.type(pool_backward->inputs[0])) return false;
    const ir::NodeId backward_id = graph_.value(node.inputs[0]).producer;
    const ir::ValueId pooled = pool->outputs[0];
    graph_.set_insertion_point(backward_id);
    ir::ValueId masked;
    {
      const ir::ScopeGuard scope(graph_, node.scope);
      const ir::NodeId mask =
          graph_.add_node(op("relu_backward"), {graph_.node(backward_id).inputs[0], pooled});
      masked = graph_.node(mask).outputs[0];
    }
    graph_.set_insertion_point(-1);
    graph_.node(backward_id).inputs[0] = masked;
    graph_.replace_uses(node.outputs[0], graph_.node(backward_id).outputs[0]);
    graph_.erase(id);
    return true;
  }

  /// add(conv2d(x, w), bias) -> conv2d(x, w, bias); the same for matmul.
  bool bias_into_product(ir::NodeId id) {
    const ir::Node add = graph_.node(id);
    if (add.op->name != "add") return false;
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const ir::ValueId product = add.inputs[side];
      const ir::ValueId bias = add.inputs[1 - side];
      const ir::NodeId product_id = graph_.value(product).producer;
      const ir::Node& node = graph_.node(product_id);
      if (only_reader(product) != id || graph_.type(bias).shape.rank() != 1 ||
          graph_.type(bias).shape[0] != graph_.type(product).shape[-1] ||
          graph_.type(add.outputs[0]) != graph_.type(product)) {
        continue;
      }
      Attributes fused;
      if (!with_bias(node, fused)) continue;
      std::vector<ir::ValueId> inputs = {node.inputs[0], node.inputs[1], bias};
      move_product(product_id, id, std::move(inputs), fused, add.outputs[0]);
      return true;
    }
    return false;
  }

  [[nodiscard]] bool with_bias(const ir::Node& node, Attributes& fused) const {
    if (node.op->name == "conv2d" && capabilities_.conv2d_bias_activation) {
      auto attributes = node.attributes.as<ops::Conv2DAttributes>();
      if (attributes.has_bias || attributes.activation != Activation::kNone) return false;
      attributes.has_bias = true;
      fused = attributes;
      return true;
    }
    if (node.op->name == "matmul" && capabilities_.matmul_bias_activation) {
      auto attributes = node.attributes.as<ops::MatmulAttributes>();
      if (attributes.has_bias || attributes.activation != Activation::kNone) return false;
      attributes.has_bias = true;
      fused = attributes;
      return true;
    }
    return false;
  }

  /// Puts the product in the place of its only reader, whose result it takes over.
  void move_product(ir::NodeId product, ir::NodeId reader, std::vector<ir::ValueId> inputs,
                    const Attributes& attributes, ir::ValueId result) {
    const TensorType type = graph_.type(result);
    std::vector<ir::ValueId> outputs = graph_.node(product).outputs;
    outputs[0] = result;
    graph_.replace_node(product, *graph_.node(product).op, std::move(inputs), attributes, outputs);
    graph_.set_type(result, type);
    graph_.move(product, reader);
    graph_.erase(reader);
  }

  /// relu(conv2d(…)), relu(matmul(…)), relu(batch_norm_train(…).y), relu(batch_norm_inference(…)).
  bool relu_into_producer(ir::NodeId id) {
    const ir::Node relu = graph_.node(id);
    if (relu.op->name != "relu" || only_reader(relu.inputs[0]) != id) return false;
    const ir::Value& value = graph_.value(relu.inputs[0]);
    if (value.output != 0 || graph_.type(relu.outputs[0]) != value.type) return false;
    const ir::NodeId product = value.producer;
    Attributes fused;
    if (!with_relu(graph_.node(product), fused)) return false;
    // The other outputs of batch_norm_train may be read before the relu: the producer keeps its
    // place and the relu's readers come later anyway.
    std::vector<ir::ValueId> outputs = graph_.node(product).outputs;
    outputs[0] = relu.outputs[0];
    const TensorType type = graph_.type(relu.outputs[0]);
    graph_.replace_node(product, *graph_.node(product).op, graph_.node(product).inputs, fused,
                        outputs);
    graph_.set_type(relu.outputs[0], type);
    graph_.erase(id);
    return true;
  }

  [[nodiscard]] bool with_relu(const ir::Node& node, Attributes& fused) const {
    const auto set = [&fused](auto attributes) {
      if (attributes.activation != Activation::kNone) return false;
      attributes.activation = Activation::kRelu;
      fused = attributes;
      return true;
    };
    const std::string& name = node.op->name;
    if (name == "conv2d" && capabilities_.conv2d_bias_activation) {
      const auto& attributes = node.attributes.as<ops::Conv2DAttributes>();
      return !attributes.has_pool && set(attributes);
    }
    if (name == "matmul" && capabilities_.matmul_bias_activation) {
      return set(node.attributes.as<ops::MatmulAttributes>());
    }
    if ((name == "batch_norm_train" || name == "batch_norm_inference") &&
        capabilities_.batch_norm_relu) {
      return set(node.attributes.as<ops::BatchNormAttributes>());
    }
    return false;
  }

  /// batch_norm_backward(relu_backward(dy, y), x, …) -> batch_norm_backward(dy, x, …, y), where y
  /// comes from the normalization itself; the same with given statistics.
  bool relu_backward_into_batch_norm(ir::NodeId id) {
    const ir::Node relu = graph_.node(id);
    if (relu.op->name != "relu_backward" || !capabilities_.batch_norm_relu) return false;
    const ir::NodeId backward_id = only_reader(relu.outputs[0]);
    if (backward_id < 0) return false;
    const ir::Node backward = graph_.node(backward_id);
    const bool by_batch = backward.op->name == "batch_norm_backward";
    const bool by_given = backward.op->name == "batch_norm_inference_backward";
    if (!(by_batch || by_given) || backward.inputs[0] != relu.outputs[0]) return false;
    const char* forward = by_batch ? "batch_norm_train" : "batch_norm_inference";
    auto attributes = backward.attributes.as<ops::BatchNormAttributes>();
    if (attributes.activation != Activation::kNone ||
        producer_if(relu.inputs[1], forward) == nullptr) {
      return false;
    }
    attributes.activation = Activation::kRelu;
    std::vector<ir::ValueId> inputs = backward.inputs;
    inputs[0] = relu.inputs[0];
    inputs.push_back(relu.inputs[1]);
    graph_.replace_node(backward_id, *backward.op, std::move(inputs), attributes, backward.outputs);
    graph_.erase(id);
    return true;
  }

  /// max_pool2d(conv2d(…)): the image before pooling is never stored.
  bool pool_into_conv(ir::NodeId id) {
    const ir::Node pool = graph_.node(id);
    if (pool.op->name != "max_pool2d" || !capabilities_.conv2d_max_pool) return false;
    const ir::NodeId conv_id = graph_.value(pool.inputs[0]).producer;
    const ir::Node conv = graph_.node(conv_id);
    if (conv.op->name != "conv2d" || only_reader(pool.inputs[0]) != id) return false;
    auto attributes = conv.attributes.as<ops::Conv2DAttributes>();
    const auto& window = pool.attributes.as<ops::Pool2DAttributes>();
    if (attributes.has_pool || window.padding != ops::Padding2D{}) return false;
    attributes.has_pool = true;
    attributes.pool = window;
    if (window.relu) attributes.activation = Activation::kRelu;
    const TensorType type = graph_.type(pool.outputs[0]);
    graph_.replace_node(conv_id, *conv.op, conv.inputs, attributes, pool.outputs);
    graph_.set_type(pool.outputs[0], type);
    graph_.erase(id);
    return true;
  }

  /// conv2d_backward_*(…, scattered d) -> conv2d_backward_*_pooled(…, d, places): Note [Structural
  /// zeros].
  bool conv_backward_from_scattered(ir::NodeId id) {
    const ir::Node node = graph_.node(id);
    const bool by_filter = node.op->name == "conv2d_backward_filter";
    const bool by_input = node.op->name == "conv2d_backward_input";
    if (!capabilities_.conv2d_backward_pooled || !(by_filter || by_input)) return false;
    const auto dy = ir::scattered(graph_, node.inputs[by_filter ? 1 : 0]);
    if (!dy) return false;
    auto attributes = node.attributes.as<ops::Conv2DAttributes>();
    const auto& window = dy->windows.as<ops::Pool2DAttributes>();
    constexpr std::array<std::int64_t, 2> kOne = {1, 1};
    if (attributes.strides != kOne || attributes.dilation_rate != kOne || attributes.groups != 1 ||
        window.padding != ops::Padding2D{}) {
      return false;
    }
    attributes.has_pool = true;
    attributes.pool = window;
    const ir::ValueId other = node.inputs[by_filter ? 0 : 1];
    const TensorType type = graph_.type(node.outputs[0]);
    const ir::ValueId values = ir::gather_values(graph_, *dy, id);
    graph_.replace_node(id, op(node.op->name + "_pooled"), {other, values, dy->places}, attributes,
                        node.outputs);
    graph_.set_type(node.outputs[0], type);
    return true;
  }

  /// A bias gradient, sum_to(scattered d, [c]) -> sum_to(d, [c]).
  bool sum_before_scatter(ir::NodeId id) {
    const ir::Node node = graph_.node(id);
    if (node.op->name != "sum_to" || graph_.type(node.outputs[0]).shape.rank() != 1) return false;
    const auto summand = ir::scattered(graph_, node.inputs[0]);
    if (!summand) return false;
    const ir::ValueId values = ir::gather_values(graph_, *summand, id);
    graph_.node(id).inputs[0] = values;
    return true;
  }

  /// max_pool2d(relu(x)) = relu(max_pool2d(x)), inside the pooling kernel.
  bool relu_into_pool(ir::NodeId id) {
    const ir::Node pool = graph_.node(id);
    if (pool.op->name != "max_pool2d" || !capabilities_.max_pool_relu) return false;
    const ir::Node* relu = producer_if(pool.inputs[0], "relu");
    if (relu == nullptr || only_reader(pool.inputs[0]) != id) return false;
    auto attributes = pool.attributes.as<ops::Pool2DAttributes>();
    const ir::NodeId relu_id = graph_.value(pool.inputs[0]).producer;
    attributes.relu = true;
    graph_.replace_node(id, *pool.op, {relu->inputs[0]}, attributes, pool.outputs);
    graph_.erase(relu_id);
    return true;
  }

  ir::Graph& graph_;
  const Capabilities& capabilities_;
  std::vector<std::vector<ir::NodeId>> readers_;
};

}  // namespace

void fuse(ir::Graph& graph, const Capabilities& capabilities) {
  if (capabilities.mean_sparse_cross_entropy) fuse_cross_entropy(graph);
  Fuse(graph, capabilities).run();
  graph.erase_dead();
  if (capabilities.max_pool_without_index) pool_without_index(graph, capabilities);
  fuse_gradients(graph, capabilities);
}

}  // namespace demi::passes
