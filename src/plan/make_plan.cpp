#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/builtin_ops.h"
#include "src/plan/memory_planner.h"
#include "src/plan/plan.h"

namespace demi::plan {
namespace {

bool runs_no_kernel(const ir::Node& node) {
  return node.op->infer == nullptr || node.op->is_view || node.op->name == "constant";
}

class Planner {
 public:
  /// `backend` may be null for bytes_of_buffers().
  Planner(std::shared_ptr<const ir::Graph> graph, Backend* backend)
      : graph_(*graph),
        backend_(backend),
        root_(graph->value_count(), -1),
        buffer_of_(graph->value_count(), -1),
        plan_(std::make_shared<Plan>()) {
    plan_->graph = std::move(graph);
  }

  std::shared_ptr<const Plan> make() {
    list_steps();
    select_kernels();
    lay_out();
    categorise();
    locate_operands();
    return plan_;
  }

  /// Without kernels, as if all of them overwrote what their ops allow.
  std::size_t bytes_of_buffers() {
    list_steps();
    lay_out();
    return plan_->buffer_bytes;
  }

 private:
  void list_steps() {
    for (const ir::NodeId id : graph_.order()) {
      if (!runs_no_kernel(graph_.node(id))) plan_->steps.push_back({id, nullptr, {}, {}, {}});
    }
  }

  // --- kernels ---

  void select_kernels() {
    const char* setting = std::getenv("DEMI_VERBOSE");
    const bool verbose = setting != nullptr && std::strcmp(setting, "0") != 0;
    for (Step& step : plan_->steps) {
      const ir::Node& node = graph_.node(step.node);
      std::vector<TensorType> inputs, outputs;
      for (const ir::ValueId value : node.inputs) inputs.push_back(graph_.type(value));
      for (const ir::ValueId value : node.outputs) outputs.push_back(graph_.type(value));
      KernelSelection selection =
          backend_->select({node.op->name, node.attributes, inputs, outputs});
      if (!selection.kernel) refuse(node, inputs, outputs, selection);
      if (verbose) report(node, outputs, selection);
      plan_->workspace_bytes =
          std::max(plan_->workspace_bytes, align_up(selection.kernel->workspace_bytes()));
      step.kernel = std::move(selection.kernel);
      step.refusals = std::move(selection.refusals);
    }
  }

  [[noreturn]] void refuse(const ir::Node& node, const std::vector<TensorType>& inputs,
                           const std::vector<TensorType>& outputs,
                           const KernelSelection& selection) const {
    std::string types;
    for (const TensorType& type : inputs) types += (types.empty() ? "" : ", ") + type.to_string();
    types += " ->";
    for (const TensorType& type : outputs) types += " " + type.to_string();
    std::string reasons;
    for (const auto& refusal : selection.refusals) {
      reasons += fmt::format(" {}: {}.", refusal.candidate, refusal.reason);
    }
    internal::fail_argument(
        node.op->name,
        fmt::format("expected types that a kernel of {} supports. Received: {} {{{}}} "
                    "in layer '{}'.{}",
                    backend_->name(), types, node.attributes.to_string(), node.scope.layer,
                    reasons));
  }

  void report(const ir::Node& node, const std::vector<TensorType>& outputs,
              const KernelSelection& selection) const {
    std::string line = fmt::format("demi: {} {} {} -> {}", node.op->name, outputs[0].to_string(),
                                   node.scope.layer, selection.kernel->name());
    for (const auto& refusal : selection.refusals) {
      line += fmt::format("; {} refused: {}", refusal.candidate, refusal.reason);
    }
    std::fprintf(stderr, "%s\n", line.c_str());
  }

  // --- storage ---

  void lay_out() {
    find_roots();
    find_lifetimes();
    place();
  }

  // Note [Roots]
  // Values that share bytes share a root: a view's root is that of its input, a state update's that
  // of the variable it overwrites, and an output written into a dying input's buffer takes over
  // that input's root.
  void find_roots() {
    std::vector<int> last_read = last_reads();
    int step = -1;
    for (const ir::NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      for (const ir::ValueId output : node.outputs) root(output) = output;
      if (node.op->is_view) root(node.outputs[0]) = root(node.inputs[0]);
      if (node.op->overwrites != nullptr) {
        for (const ir::Overwrite& pair : node.op->overwrites(node)) {
          root(node.outputs[static_cast<std::size_t>(pair.output)]) =
              root(node.inputs[static_cast<std::size_t>(pair.input)]);
        }
      }
      if (runs_no_kernel(node)) continue;
      ++step;
      reuse_dying_input(node, step, last_read);
    }
  }

  void reuse_dying_input(const ir::Node& node, int step, std::vector<int>& last_read) {
    const auto& kernel = plan_->steps[static_cast<std::size_t>(step)].kernel;
    if (kernel && !kernel->may_overwrite_inputs()) return;
    for (const int index : node.op->reusable_inputs) {
      if (static_cast<std::size_t>(index) >= node.inputs.size()) continue;
      const ir::ValueId input = node.inputs[static_cast<std::size_t>(index)];
      const ir::ValueId output = node.outputs[0];
      const ir::ValueId buffer = root(input);
      if (root(output) != output || !in_arena(buffer)) continue;
      if (last_read[static_cast<std::size_t>(buffer)] != step) continue;
      const TensorType& from = graph_.type(input);
      const TensorType& to = graph_.type(output);
      if (from.bytes() != to.bytes() || size_of(from.dtype) != size_of(to.dtype)) continue;
      if (from.bytes() == 0) continue;
      root(output) = buffer;
      last_read[static_cast<std::size_t>(buffer)] = last_read[static_cast<std::size_t>(output)];
      return;
    }
  }

  /// For each value, the last step that reads it or a view of it; graph outputs are read at the
  /// end.
  [[nodiscard]] std::vector<int> last_reads() const {
    std::vector<int> last(graph_.value_count(), -1);
    std::vector<ir::ValueId> view_of(graph_.value_count(), -1);
    const auto touch = [&](ir::ValueId value, int step) {
      for (; value >= 0; value = view_of[static_cast<std::size_t>(value)]) {
        last[static_cast<std::size_t>(value)] =
            std::max(last[static_cast<std::size_t>(value)], step);
      }
    };
    int step = -1;
    for (const ir::NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      if (node.op->is_view) {
        view_of[static_cast<std::size_t>(node.outputs[0])] = node.inputs[0];
        continue;
      }
      if (runs_no_kernel(node)) continue;
      ++step;
      for (const ir::ValueId input : node.inputs) touch(input, step);
    }
    for (const ir::GraphOutput& output : graph_.outputs()) touch(output.value, step + 1);
    return last;
  }

  ir::ValueId& root(ir::ValueId value) { return root_[static_cast<std::size_t>(value)]; }

  [[nodiscard]] bool in_arena(ir::ValueId value) const {
    const ir::Node& producer = graph_.producer(value);
    return !producer.variable && producer.op->name != "input" && producer.op->name != "constant";
  }

  int& buffer_of(ir::ValueId value) { return buffer_of_[static_cast<std::size_t>(root(value))]; }

  void find_lifetimes() {
    const auto touch = [&](ir::ValueId value, int step) {
      if (!in_arena(root(value))) return;
      if (buffer_of(value) < 0) {
        buffer_of(value) = static_cast<int>(plan_->buffers.size());
        Buffer buffer;
        buffer.bytes = graph_.type(value).bytes();
        buffer.first_step = buffer.last_step = step;
        buffer.values.push_back(root(value));
        buffer.layer = graph_.producer(value).scope.layer;
        plan_->buffers.push_back(std::move(buffer));
      }
      Buffer& buffer = plan_->buffers[static_cast<std::size_t>(buffer_of(value))];
      buffer.bytes = std::max(buffer.bytes, graph_.type(value).bytes());
      buffer.last_step = std::max(buffer.last_step, step);
    };
    for (std::size_t step = 0; step < plan_->steps.size(); ++step) {
      const ir::Node& node = graph_.node(plan_->steps[step].node);
      for (const ir::ValueId input : node.inputs) touch(input, static_cast<int>(step));
      for (const ir::ValueId output : node.outputs) touch(output, static_cast<int>(step));
    }
    for (const ir::GraphOutput& output : graph_.outputs()) {
      touch(output.value, static_cast<int>(plan_->steps.size()));
    }
    for (const ir::NodeId id : graph_.order()) {
      for (const ir::ValueId value : graph_.node(id).outputs) {
        if (root(value) == value || buffer_of(value) < 0) continue;
        plan_->buffers[static_cast<std::size_t>(buffer_of(value))].values.push_back(value);
      }
    }
  }

  void categorise() {
    for (const Step& step : plan_->steps) {
      const ir::Phase reader = graph_.node(step.node).scope.phase;
      for (const ir::ValueId input : graph_.node(step.node).inputs) {
        if (!in_arena(root(input))) continue;
        Buffer& buffer = plan_->buffers[static_cast<std::size_t>(buffer_of(input))];
        const ir::Phase writer = graph_.producer(buffer.value()).scope.phase;
        if (writer == ir::Phase::kForward && reader == ir::Phase::kBackward) {
          buffer.kind = BufferKind::kActivation;
        } else if (writer == ir::Phase::kBackward && reader == ir::Phase::kUpdate) {
          buffer.kind = BufferKind::kGradient;
        }
      }
    }
    for (Buffer& buffer : plan_->buffers) {
      const ir::Node& producer = graph_.producer(buffer.value());
      if (producer.op->name == "cast" && graph_.variable_of(producer.inputs[0])) {
        buffer.kind = BufferKind::kComputeCopy;
      }
    }
  }

  void place() {
    std::vector<Lifetime> lifetimes;
    for (const Buffer& buffer : plan_->buffers) {
      lifetimes.push_back({buffer.bytes, buffer.first_step, buffer.last_step});
    }
    const Assignment assignment = assign_offsets(lifetimes);
    for (std::size_t i = 0; i < plan_->buffers.size(); ++i) {
      plan_->buffers[i].offset = assignment.offsets[i];
    }
    plan_->buffer_bytes = assignment.total_bytes;
  }

  // --- operands ---

  Location locate(ir::ValueId value) {
    const ir::ValueId base = root(value);
    const ir::Node& producer = graph_.producer(base);
    if (producer.variable) return {Location::Kind::kVariable, variable_index(producer.variable)};
    if (producer.op->name == "input") return {Location::Kind::kFeed, feed_index_.at(base)};
    if (producer.op->name == "constant") return {Location::Kind::kConstant, constant_offset(base)};
    return {Location::Kind::kArena,
            plan_->buffers[static_cast<std::size_t>(buffer_of(value))].offset};
  }

  std::size_t variable_index(const std::shared_ptr<VariableState>& variable) {
    const auto [entry, added] =
        variable_index_.try_emplace(variable.get(), plan_->variables.size());
    if (added) plan_->variables.push_back(variable);
    return entry->second;
  }

  std::size_t constant_offset(ir::ValueId value) {
    const auto [entry, added] = constant_offset_.try_emplace(value, plan_->constant_bytes);
    if (added) {
      plan_->constants.push_back({plan_->constant_bytes, value});
      plan_->constant_bytes += align_up(graph_.type(value).bytes());
    }
    return entry->second;
  }

  void locate_operands() {
    for (const ir::NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      if (node.op->name != "input") continue;
      feed_index_[node.outputs[0]] = plan_->feeds.size();
      plan_->feeds.push_back({node.name, graph_.type(node.outputs[0])});
    }
    for (Step& step : plan_->steps) {
      const ir::Node& node = graph_.node(step.node);
      for (const ir::ValueId input : node.inputs) step.inputs.push_back(locate(input));
      for (const ir::ValueId output : node.outputs) step.outputs.push_back(locate(output));
    }
    for (const ir::GraphOutput& output : graph_.outputs()) {
      plan_->outputs.push_back({output.name, graph_.type(output.value), locate(output.value)});
    }
  }

  const ir::Graph& graph_;
  Backend* backend_;
  std::vector<ir::ValueId> root_;
  std::vector<int> buffer_of_;  // by root value: index into plan_->buffers
  std::map<ir::ValueId, std::size_t> feed_index_;
  std::map<const VariableState*, std::size_t> variable_index_;
  std::map<ir::ValueId, std::size_t> constant_offset_;
  std::shared_ptr<Plan> plan_;
};

}  // namespace

std::shared_ptr<const Plan> make_plan(std::shared_ptr<const ir::Graph> graph, Backend& backend) {
  return Planner(std::move(graph), &backend).make();
}

std::size_t buffer_bytes(const std::shared_ptr<const ir::Graph>& graph) {
  return Planner(graph, nullptr).bytes_of_buffers();
}

}  // namespace demi::plan
