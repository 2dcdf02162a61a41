#include "src/training/model/summary.h"

#include <algorithm>
#include <iostream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/core/variable_state.h"
#include "src/layers/layer_state.h"
#include "src/training/compile.h"
#include "src/training/memory/format.h"

namespace demi {
namespace {

using Row = std::vector<std::string>;

/// "(None, 28, 28, 1)".
std::string format_shape(const Shape& shape) {
  std::string text;
  for (const std::int64_t extent : shape) {
    text += text.empty() ? "" : ", ";
    text += extent == Shape::kUnknown ? "None" : std::to_string(extent);
  }
  return shape.rank() == 1 ? fmt::format("({},)", text) : fmt::format("({})", text);
}

/// 1234567 as "1,234,567".
std::string format_count(std::int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

using internal::format_bytes;
using internal::format_bytes_as_keras;

/// The lines of a table: a header in heavy, rows in light lines. Columns whose title ends in '#' or
/// bytes are aligned to the right.
class Table {
 public:
  explicit Table(Row titles, std::vector<bool> right) : right_(std::move(right)) {
    add(std::move(titles));
  }

  void add(Row row) {
    widths_.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths_[i] = std::max(widths_[i], row[i].size());
    }
    rows_.push_back(std::move(row));
  }

  [[nodiscard]] std::string text() const {
    std::string text = line("┏", "━", "┳", "┓");
    text += cells(rows_[0], "┃");
    text += line("┡", "━", "╇", "┩");
    for (std::size_t i = 1; i < rows_.size(); ++i) {
      if (i > 1) text += line("├", "─", "┼", "┤");
      text += cells(rows_[i], "│");
    }
    return text + line("└", "─", "┴", "┘");
  }

 private:
  [[nodiscard]] std::string line(const char* left, const char* fill, const char* middle,
                                 const char* right) const {
    std::string text = left;
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      if (i > 0) text += middle;
      for (std::size_t j = 0; j < widths_[i] + 2; ++j) text += fill;
    }
    return text + right + "\n";
  }

  [[nodiscard]] std::string cells(const Row& row, const char* border) const {
    std::string text = border;
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += right_[i] ? fmt::format(" {:>{}} {}", row[i], widths_[i], border)
                        : fmt::format(" {:<{}} {}", row[i], widths_[i], border);
    }
    return text + "\n";
  }

  std::vector<bool> right_;
  std::vector<Row> rows_;
  std::vector<std::size_t> widths_;
};

class Summary {
 public:
  Summary(const ModelImpl& model, const std::optional<ActivationBytes>& activations)
      : model_(model), activations_(activations), table_(titles(), alignment()) {
    if (!model.layer_graph) {
      for (const auto& layer : model.sequence) {
        table_.add(row({title(*layer), "?", "?", "0 (unbuilt)", "?", ""}));
      }
      return;
    }
    const LayerGraph& graph = *model.layer_graph;
    name_values(graph);
    if (!model.is_sequential) {
      for (const auto& input : graph.inputs) {
        const TensorType& type = graph.type(input.value);
        table_.add(row({input.name + " (InputLayer)", format_shape(type.shape),
                        std::string(to_string(type.dtype)), "0", "", "-"}));
      }
    }
    for (const auto& call : graph.calls) add_call(graph, call);
  }

  [[nodiscard]] std::string table() const { return table_.text(); }

 private:
  /// All columns in order: layer, shape, dtype, parameters, activations, connections.
  [[nodiscard]] Row row(Row all) const {
    if (model_.is_sequential) all.pop_back();
    if (!activations_) all.erase(all.begin() + 4);
    return all;
  }
  [[nodiscard]] Row titles() const {
    const std::string bytes =
        activations_ ? fmt::format("Activations (batch {})", activations_->batch_size) : "";
    return row({"Layer (type)", "Output Shape", "Output dtype", "Param #", bytes, "Connected to"});
  }
  [[nodiscard]] std::vector<bool> alignment() const {
    std::vector<bool> right = {false, false, false, true};
    if (activations_) right.push_back(true);
    if (!model_.is_sequential) right.push_back(false);
    return right;
  }

  static std::string title(const Layer& layer) {
    return fmt::format("{} ({})", layer.name(), layer.class_name());
  }

  /// "conv2d[0][0]": result 0 of the first call of conv2d.
  void name_values(const LayerGraph& graph) {
    value_names_.resize(graph.values.size());
    for (const auto& input : graph.inputs) {
      value_names_[static_cast<std::size_t>(input.value)] = input.name + "[0][0]";
    }
    std::map<std::string, int> calls;
    for (const auto& call : graph.calls) {
      const std::string name = call.layer ? call.layer->name() : call.op->name;
      const int number = calls[name]++;
      for (std::size_t i = 0; i < call.outputs.size(); ++i) {
        value_names_[static_cast<std::size_t>(call.outputs[i])] =
            fmt::format("{}[{}][{}]", name, number, i);
      }
    }
  }

  void add_call(const LayerGraph& graph, const LayerGraph::Call& call) {
    if (call.layer == nullptr && call.op->name == "constant") return;
    if (call.layer != nullptr && !seen_.insert(call.layer->state().get()).second) return;
    std::vector<std::string> shapes;
    std::vector<std::string> dtypes;
    for (const int output : call.outputs) {
      const TensorType type = visible_type(graph, output);
      shapes.push_back(format_shape(type.shape));
      if (dtypes.empty() || dtypes.back() != to_string(type.dtype)) {
        dtypes.emplace_back(to_string(type.dtype));
      }
    }
    std::string params = "0";
    std::string bytes;
    if (call.layer != nullptr) {
      params = format_count(call.layer->count_params());
      bytes = activation_bytes(*call.layer);
    }
    table_.add(
        row({call.layer ? title(*call.layer) : call.op->name + " (op)",
             fmt::format("{}", fmt::join(shapes, ", ")), fmt::format("{}", fmt::join(dtypes, ", ")),
             params, bytes, connections(graph, call)}));
  }

  static TensorType visible_type(const LayerGraph& graph, LayerGraph::ValueIndex value) {
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      if (graph.outputs[i].value == value) return graph.output_type(i);
    }
    return graph.type(value);
  }

  [[nodiscard]] std::string activation_bytes(const Layer& layer) const {
    if (!activations_) return "";
    std::size_t bytes = 0;
    // A layer's path begins those of its inner layers.
    const std::string& path = layer.state()->path;
    for (const auto& [name, count] : activations_->by_layer) {
      if (name == path || name.starts_with(path + "/")) bytes += count;
    }
    return format_bytes(bytes);
  }

  /// Of every call of the layer.
  [[nodiscard]] std::string connections(const LayerGraph& graph,
                                        const LayerGraph::Call& call) const {
    std::vector<std::string> names;
    for (const auto& other : graph.calls) {
      const bool same = call.layer != nullptr && other.layer != nullptr
                            ? other.layer->state() == call.layer->state()
                            : &other == &call;
      if (!same) continue;
      for (const int input : other.inputs) {
        const std::string& name = value_names_[static_cast<std::size_t>(input)];
        if (!name.starts_with("constant[")) names.push_back(name);
      }
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

  const ModelImpl& model_;
  const std::optional<ActivationBytes>& activations_;
  Table table_;
  std::vector<std::string> value_names_;
  std::set<const internal::LayerState*> seen_;
};

std::string parameters_line(const char* what, const std::vector<Variable>& variables) {
  std::int64_t count = 0;
  std::size_t bytes = 0;
  for (const Variable& variable : variables) {
    count += variable.shape().elements();
    bytes += variable.state()->type.bytes();
  }
  return fmt::format(" {}: {} ({})\n", what, format_count(count), format_bytes_as_keras(bytes));
}

std::string planned_line(const MemoryPlan& plan) {
  const PlannedBytes& bytes = plan.bytes;
  return fmt::format(
      " Training step of {} samples on {}: {} (weights {}, optimizer {}, arena {}, input buffers "
      "{}, rest {})\n",
      plan.batch_size, plan.device, format_bytes(bytes.total), format_bytes(bytes.weights),
      format_bytes(bytes.optimizer), format_bytes(bytes.arena), format_bytes(bytes.input_buffers),
      format_bytes(bytes.constants + bytes.step_state));
}

}  // namespace

std::string format_summary(const ModelImpl& model,
                           const std::optional<ActivationBytes>& activations) {
  const Summary summary(model, activations);
  std::string text = fmt::format("Model: \"{}\"\n{}", model.name, summary.table());
  const auto variables = [&](auto member) {
    return model.layer_graph ? (*model.layer_graph.*member)() : std::vector<Variable>();
  };
  text += parameters_line("Total params", variables(&LayerGraph::variables));
  text += parameters_line("Trainable params", variables(&LayerGraph::trainable_variables));
  text += parameters_line("Non-trainable params", variables(&LayerGraph::non_trainable_variables));
  return text;
}

void Model::summary(std::ostream& out, const SummaryOptions& options) const {
  std::optional<ActivationBytes> activations;
  if (built()) {
    activations = ActivationBytes{.batch_size = options.batch_size};
    // A model that learns nothing keeps nothing.
    if (!trainable_variables().empty()) {
      activations->by_layer = planned_activation_bytes(impl_->graph(), options.batch_size);
    }
  }
  out << format_summary(*impl_, activations);
  const bool trains = impl_->compile_options && !impl_->compile_options->loss.empty();
  if (built() && trains) out << planned_line(memory_plan(options.batch_size));
}

void Model::summary(const SummaryOptions& options) const {
  summary(std::cout, options);
}

}  // namespace demi
