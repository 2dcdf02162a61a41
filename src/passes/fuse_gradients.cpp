#include <algorithm>

#include <demi/ops/matmul.h>
#include <demi/ops/pooling.h>

#include "src/ir/op_registry.h"
#include "src/passes/fusions.h"

namespace demi::passes {
namespace {

using ops::MatmulAttributes;
using ops::Pool2DAttributes;

class FuseGradients {
 public:
  FuseGradients(ir::Graph& graph, const Capabilities& capabilities)
      : graph_(graph), capabilities_(capabilities) {}

  void run() {
    const std::vector<ir::NodeId> order = graph_.order();
    for (const ir::NodeId id : order) {
      readers_ = graph_.readers();
      const std::string& name = graph_.node(id).op->name;
      if (name == "relu_backward" && capabilities_.matmul_relu_backward) mask_product(id);
      if (name == "max_pool2d_backward" && capabilities_.max_pool_bias_gradient) sum_pool(id);
      if (name == "matmul" && capabilities_.matmul_bias_gradient) sum_product(id);
    }
    graph_.set_insertion_point(-1);
  }

 private:
  [[nodiscard]] const std::vector<ir::NodeId>& readers(ir::ValueId value) const {
    return readers_[static_cast<std::size_t>(value)];
  }

  [[nodiscard]] bool is_output(ir::ValueId value) const {
    return std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                       [&](const ir::GraphOutput& output) { return output.value == value; });
  }

  [[nodiscard]] bool is_before(ir::NodeId a, ir::NodeId b) const {
    for (const ir::NodeId id : graph_.order()) {
      if (id == a || id == b) return id == a;
    }
    return false;
  }

  /// The sum of `gradient` over all axes but the innermost one, in its accumulation dtype, if there
  /// is one and it is first read behind `id`; else -1.
  [[nodiscard]] ir::NodeId bias_gradient_of(ir::ValueId gradient, ir::NodeId id) const {
    const TensorType& type = graph_.type(gradient);
    const TensorType expected{{type.shape[-1]}, accumulation_dtype(type.dtype)};
    for (const ir::NodeId sum : readers(gradient)) {
      const ir::Node& node = graph_.node(sum);
      if (node.op->name != "sum_to" || graph_.type(node.outputs[0]) != expected) continue;
      const std::vector<ir::NodeId>& after = readers(node.outputs[0]);
      if (std::all_of(after.begin(), after.end(),
                      [&](ir::NodeId reader) { return is_before(id, reader); })) {
        return sum;
      }
    }
    return -1;
  }

  /// relu_backward(matmul(a, b), y) -> matmul(a, b, y).
  void mask_product(ir::NodeId id) {
    const ir::Node mask = graph_.node(id);
    const ir::ValueId product = mask.inputs[0];
    const ir::NodeId product_id = graph_.value(product).producer;
    const ir::Node& node = graph_.node(product_id);
    if (node.op->name != "matmul" || readers(product).size() != 1 || is_output(product)) return;
    auto attributes = node.attributes.as<MatmulAttributes>();
    const TensorType type = graph_.type(mask.outputs[0]);
    if (attributes.has_bias || attributes.activation != ops::Activation::kNone ||
        attributes.relu_backward || attributes.bias_gradient || graph_.type(product) != type ||
        graph_.type(mask.inputs[1]) != type || type.dtype != graph_.type(node.inputs[0]).dtype) {
      return;
    }
    attributes.relu_backward = true;
    graph_.replace_node(id, *node.op, {node.inputs[0], node.inputs[1], mask.inputs[1]}, attributes,
                        mask.outputs);
    graph_.erase(product_id);
  }

  /// max_pool2d_backward takes over the sum over positions of its result, which is that of dy, and
  /// the mask of dy.
  void sum_pool(ir::NodeId id) {
    const ir::Node pool = graph_.node(id);
    auto attributes = pool.attributes.as<Pool2DAttributes>();
    std::vector<ir::ValueId> inputs = pool.inputs;
    const ir::NodeId sum = bias_gradient_of(pool.inputs[0], id);
    const ir::Node& mask = graph_.producer(pool.inputs[0]);
    // The mask must be of use to nobody else.
    const std::size_t uses = readers(pool.inputs[0]).size();
    if (!attributes.relu && mask.op->name == "relu_backward" && uses == (sum < 0 ? 1U : 2U) &&
        !is_output(pool.inputs[0]) && graph_.type(mask.inputs[1]) == graph_.type(mask.inputs[0])) {
      inputs = {mask.inputs[0], pool.inputs[1], mask.inputs[1]};
      attributes.relu = true;
    }
    attributes.bias_gradient = sum >= 0;
    if (attributes == pool.attributes.as<Pool2DAttributes>()) return;
    replace(id, std::move(inputs), attributes, sum);
  }

  /// matmul(aᵀ, dy) and the sum of dy's rows -> one matmul.
  void sum_product(ir::NodeId id) {
    const ir::Node product = graph_.node(id);
    auto attributes = product.attributes.as<MatmulAttributes>();
    if (!attributes.transpose_a || attributes.transpose_b || attributes.has_bias ||
        attributes.relu_backward || attributes.bias_gradient ||
        attributes.activation != ops::Activation::kNone) {
      return;
    }
    const ir::NodeId sum = bias_gradient_of(product.inputs[1], id);
    if (sum < 0) return;
    attributes.bias_gradient = true;
    replace(id, product.inputs, attributes, sum);
  }

  /// Replaces `id` by a node of the same op whose further output takes the place of `sum`'s.
  void replace(ir::NodeId id, std::vector<ir::ValueId> inputs, Attributes attributes,
               ir::NodeId sum) {
    const ir::Node node = graph_.node(id);
    graph_.set_insertion_point(id);
    const ir::ScopeGuard scope(graph_, node.scope);
    const ir::NodeId fused = graph_.add_node(*node.op, std::move(inputs), std::move(attributes));
    graph_.set_type(graph_.node(fused).outputs[0], graph_.type(node.outputs[0]));
    graph_.replace_uses(node.outputs[0], graph_.node(fused).outputs[0]);
    graph_.erase(id);
    if (sum < 0) return;
    graph_.replace_uses(graph_.node(sum).outputs[0], graph_.node(fused).outputs[1]);
    graph_.erase(sum);
  }

  ir::Graph& graph_;
  const Capabilities& capabilities_;
  std::vector<std::vector<ir::NodeId>> readers_;
};

}  // namespace

void fuse_gradients(ir::Graph& graph, const Capabilities& capabilities) {
  FuseGradients(graph, capabilities).run();
  graph.erase_dead();
}

}  // namespace demi::passes
