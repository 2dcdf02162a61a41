#include <algorithm>
#include <optional>

#include <demi/ops/cross_entropy.h>
#include <demi/ops/reduction.h>
#include <demi/ops/softmax.h>

#include "src/ir/builtin_ops.h"
#include "src/ir/op_registry.h"
#include "src/passes/fusions.h"

namespace demi::passes {
namespace {

using ops::CrossEntropyAttributes;
using ops::MeanSparseCrossEntropyAttributes;
using Accuracy = MeanSparseCrossEntropyAttributes::Accuracy;

class FuseCrossEntropy {
 public:
  explicit FuseCrossEntropy(ir::Graph& graph) : graph_(graph) {}

  void run() {
    const std::vector<ir::NodeId> order = graph_.order();
    for (const ir::NodeId id : order) {
      if (graph_.node(id).op->name == "sparse_cross_entropy") fuse(id);
    }
    graph_.set_insertion_point(-1);
  }

 private:
  /// What is found around one loss.
  struct Found {
    ir::NodeId mean = -1;
    ir::NodeId accuracy = -1;  ///< the mean of whether predictions are right
    ir::NodeId gradient = -1;
    ir::ValueId dmean = -1;
    MeanSparseCrossEntropyAttributes attributes;
  };

  [[nodiscard]] const ir::Node* producer_if(ir::ValueId value, std::string_view name) const {
    const ir::Node& node = graph_.producer(value);
    return node.op->name == name ? &node : nullptr;
  }

  [[nodiscard]] bool is_output(ir::ValueId value) const {
    return std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                       [&](const ir::GraphOutput& output) { return output.value == value; });
  }

  [[nodiscard]] std::ptrdiff_t position(ir::NodeId id) const {
    return std::find(graph_.order().begin(), graph_.order().end(), id) - graph_.order().begin();
  }

  /// Whether `id` is a mean over everything, in float32.
  [[nodiscard]] bool is_mean(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    return node.op->name == "mean" && graph_.type(node.outputs[0]) == TensorType{{}, float32};
  }

  void fuse(ir::NodeId id) {
    const ir::Node loss = graph_.node(id);
    const TensorType& scores = graph_.type(loss.inputs[0]);
    const bool from_logits = loss.attributes.as<CrossEntropyAttributes>().from_logits;
    if (!from_logits || scores.shape.rank() != 2 || scores.dtype == float64) return;
    readers_ = graph_.readers();
    const auto& readers = readers_[static_cast<std::size_t>(loss.outputs[0])];
    if (readers.size() != 1 || is_output(loss.outputs[0]) || !is_mean(readers[0])) return;
    Found found;
    found.mean = readers[0];
    find_accuracy(loss, found);
    find_gradient(loss, found);
    // The new op stands where all of its inputs are there; whoever reads its results must be later.
    const ir::NodeId place = found.gradient >= 0 ? found.gradient : found.mean;
    if (!read_later(found.mean, place)) return;
    if (found.accuracy >= 0 && !read_later(found.accuracy, place)) {
      found.accuracy = -1;
      found.attributes.accuracy = Accuracy::kNone;
    }
    write(loss, found, place);
  }

  [[nodiscard]] bool read_later(ir::NodeId id, ir::NodeId place) const {
    const auto& readers = readers_[static_cast<std::size_t>(graph_.node(id).outputs[0])];
    return std::all_of(readers.begin(), readers.end(),
                       [&](ir::NodeId reader) { return position(reader) > position(place); });
  }

  /// mean(cast(argmax(softmax(scores)) == labels)), or without the softmax.
  void find_accuracy(const ir::Node& loss, Found& found) const {
    for (const ir::NodeId id : graph_.order()) {
      if (!is_mean(id)) continue;
      const ir::Node* cast = producer_if(graph_.node(id).inputs[0], "cast");
      const ir::Node* equal = cast == nullptr ? nullptr : producer_if(cast->inputs[0], "equal");
      if (equal == nullptr || equal->inputs[1] != loss.inputs[1]) continue;
      const ir::Node* argmax = producer_if(equal->inputs[0], "argmax");
      if (argmax == nullptr || argmax->attributes.as<ops::ReductionAttributes>().axes[0] != 1) {
        continue;
      }
      if (argmax->inputs[0] == loss.inputs[0]) {
        found.attributes.accuracy = Accuracy::kOfScores;
      } else if (is_softmax_of(argmax->inputs[0], loss.inputs[0])) {
        found.attributes.accuracy = Accuracy::kOfSoftmax;
      } else {
        continue;
      }
      found.accuracy = id;
      return;
    }
  }

  [[nodiscard]] bool is_softmax_of(ir::ValueId value, ir::ValueId scores) const {
    const ir::Node* softmax = producer_if(value, "softmax");
    if (softmax == nullptr || softmax->inputs[0] != scores) return false;
    const int axis = softmax->attributes.as<ops::SoftmaxAttributes>().axis;
    return (axis == -1 || axis == 1) && graph_.type(value).dtype == float32;
  }

  /// sparse_cross_entropy_backward(broadcast(dmean / rows), scores, labels).
  void find_gradient(const ir::Node& loss, Found& found) const {
    for (const ir::NodeId id : readers_[static_cast<std::size_t>(loss.inputs[0])]) {
      const ir::Node& node = graph_.node(id);
      if (node.op->name != "sparse_cross_entropy_backward" || node.inputs[1] != loss.inputs[0] ||
          node.inputs[2] != loss.inputs[1] ||
          !node.attributes.as<CrossEntropyAttributes>().from_logits) {
        continue;
      }
      const std::optional<ir::ValueId> dloss = one_number(node.inputs[0]);
      if (!dloss) continue;
      found.gradient = id;
      found.dmean = *dloss;
      found.attributes.has_gradient = true;
      found.attributes.gradient_dtype = graph_.type(node.outputs[0]).dtype;
      take_divisor(found);
      return;
    }
  }

  /// The float32 number that a value repeats, if it does.
  [[nodiscard]] std::optional<ir::ValueId> one_number(ir::ValueId value) const {
    for (;;) {
      const ir::Node& node = graph_.producer(value);
      if (node.op->name != "broadcast_to" && node.op->name != "reshape") break;
      value = node.inputs[0];
    }
    const TensorType& type = graph_.type(value);
    if (type.dtype != float32 || type.shape.elements() != 1) return std::nullopt;
    return value;
  }

  /// Divides in the op itself where the number is a quotient by a constant.
  void take_divisor(Found& found) const {
    const ir::Node* quotient = producer_if(found.dmean, "divide");
    if (quotient == nullptr) return;
    const ir::Node* divisor = producer_if(quotient->inputs[1], "constant");
    const TensorType& type = graph_.type(quotient->inputs[0]);
    if (divisor == nullptr || type.dtype != float32 || type.shape.elements() != 1) return;
    found.attributes.divisor = divisor->attributes.as<ir::ConstantAttributes>().value;
    found.dmean = quotient->inputs[0];
  }

  void write(const ir::Node& loss, const Found& found, ir::NodeId place) {
    std::vector<ir::ValueId> inputs = loss.inputs;
    if (found.gradient >= 0) inputs.push_back(found.dmean);
    graph_.set_insertion_point(place);
    const ir::ScopeGuard scope(graph_, graph_.node(found.mean).scope);
    const ir::NodeId fused =
        graph_.add_node(ir::OpRegistry::instance().find("mean_sparse_cross_entropy"),
                        std::move(inputs), found.attributes);
    std::size_t output = 0;
    for (const ir::NodeId replaced : {found.mean, found.accuracy, found.gradient}) {
      if (replaced < 0) continue;
      graph_.replace_uses(graph_.node(replaced).outputs[0], graph_.node(fused).outputs[output++]);
    }
  }

  ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> readers_;
};

}  // namespace

void fuse_cross_entropy(ir::Graph& graph) {
  FuseCrossEntropy(graph).run();
  graph.erase_dead();
}

}  // namespace demi::passes
