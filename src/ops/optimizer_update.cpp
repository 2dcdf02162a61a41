#include "src/ops/optimizer_update.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/core/variable_state.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {
namespace {

/// Scalars that come before the tensors of adam_update and sgd_update, without the clip
/// coefficients.
constexpr std::size_t kControls = 4;

void append(std::vector<SymbolicTensor>& to, const std::vector<SymbolicTensor>& values) {
  to.insert(to.end(), values.begin(), values.end());
}

SymbolicTensor or_constant(const SymbolicTensor& value, const SymbolicTensor& beside, double number,
                           DType dtype) {
  return value ? value : ir::emit_constant(beside, number, dtype);
}

std::vector<SymbolicTensor> flatten(const UpdateInputs& inputs) {
  const SymbolicTensor& beside = inputs.iterations;
  std::vector<SymbolicTensor> flat = {
      inputs.learning_rate, or_constant(inputs.inverse_scale, beside, 1, DType::kFloat32),
      or_constant(inputs.apply, beside, 1, DType::kBool), inputs.iterations};
  if (inputs.clip) flat.push_back(inputs.clip);
  append(flat, inputs.variables);
  append(flat, inputs.gradients);
  for (const std::vector<SymbolicTensor>& slot : inputs.slots) append(flat, slot);
  return flat;
}

}  // namespace

std::string describe(const UpdateAttributes& a) {
  std::string text = fmt::format("clipped={}, clip_value={}, weight_decay={}", a.clipped,
                                 a.clip_value, a.weight_decay);
  if (!a.decayed.empty()) {
    text += ", decayed=";
    for (const bool decayed : a.decayed) text += decayed ? '1' : '0';
  }
  if (!a.transposed_gradients.empty()) {
    text += ", transposed_gradients=";
    for (const bool transposed : a.transposed_gradients) text += transposed ? '1' : '0';
  }
  for (const UpdateAttributes::Copy& copy : a.copies) {
    text += fmt::format("{}{}{}", &copy == a.copies.data() ? ", copies=" : " ", copy.variable,
                        copy.transposed ? "ᵀ" : "");
  }
  return text;
}

std::string describe(const AdamAttributes& a) {
  return fmt::format("beta_1={}, beta_2={}, epsilon={}, amsgrad={}, {}", a.beta_1, a.beta_2,
                     a.epsilon, a.amsgrad, describe(a.common));
}

std::string describe(const SgdAttributes& a) {
  return fmt::format("momentum={}, nesterov={}, {}", a.momentum, a.nesterov, describe(a.common));
}

std::string describe(const ClipAttributes& a) {
  return fmt::format("norm={}, global={}", a.norm, a.global);
}

std::string describe(const EmaAttributes& a) {
  return fmt::format("momentum={}, overwrite_frequency={}", a.momentum, a.overwrite_frequency);
}

void adam_update(const UpdateInputs& inputs, AdamAttributes attributes) {
  attributes.common.clipped = static_cast<bool>(inputs.clip);
  ir::emit_all("adam_update", flatten(inputs), std::move(attributes));
}

void sgd_update(const UpdateInputs& inputs, SgdAttributes attributes) {
  attributes.common.clipped = static_cast<bool>(inputs.clip);
  ir::emit_all("sgd_update", flatten(inputs), std::move(attributes));
}

SymbolicTensor clip_coefficients(const SymbolicTensor& inverse_scale,
                                 const std::vector<SymbolicTensor>& gradients,
                                 const ClipAttributes& attributes) {
  if (gradients.empty()) internal::fail_argument("clip_coefficients", "expected gradients.");
  std::vector<SymbolicTensor> inputs = {
      or_constant(inverse_scale, gradients[0], 1, DType::kFloat32)};
  append(inputs, gradients);
  return ir::emit("clip_coefficients", std::move(inputs), attributes);
}

std::vector<SymbolicTensor> accumulate_gradients(const SymbolicTensor& inverse_scale,
                                                 const SymbolicTensor& apply,
                                                 const SymbolicTensor& position,
                                                 const std::vector<SymbolicTensor>& accumulators,
                                                 const std::vector<SymbolicTensor>& gradients) {
  std::vector<SymbolicTensor> inputs = {or_constant(inverse_scale, position, 1, DType::kFloat32),
                                        or_constant(apply, position, 1, DType::kBool), position};
  append(inputs, accumulators);
  append(inputs, gradients);
  return ir::emit_all("accumulate_gradients", std::move(inputs));
}

void ema_update(const SymbolicTensor& apply, const SymbolicTensor& iterations,
                const std::vector<SymbolicTensor>& variables,
                const std::vector<SymbolicTensor>& averages, const EmaAttributes& attributes) {
  std::vector<SymbolicTensor> inputs = {or_constant(apply, iterations, 1, DType::kBool),
                                        iterations};
  append(inputs, variables);
  append(inputs, averages);
  ir::emit_all("ema_update", std::move(inputs), attributes);
}

}  // namespace ops

namespace ir {
namespace {

const TensorType kNumber{{}, DType::kFloat32};
const TensorType kFlag{{}, DType::kBool};
const TensorType kCounter{{}, DType::kInt64};

using Types = std::span<const TensorType>;

/// The tensors after the control scalars: `groups` lists of equally many.
class Lists {
 public:
  /// Throws std::invalid_argument if the tensors do not divide.
  Lists(const char* op, Types inputs, std::size_t controls, std::size_t groups)
      : op_(op), inputs_(inputs), controls_(controls) {
    const std::size_t tensors = inputs.size() - std::min(controls, inputs.size());
    count_ = tensors / groups;
    if (tensors == 0 || tensors % groups != 0) {
      internal::fail_argument(op, fmt::format("expected {} lists of equally many tensors after {} "
                                              "scalars. Received: {} tensors.",
                                              groups, controls, tensors));
    }
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const TensorType& type(std::size_t group, std::size_t index) const {
    return inputs_[controls_ + group * count_ + index];
  }

  void check_controls(std::initializer_list<TensorType> expected) const {
    if (!std::equal(expected.begin(), expected.end(), inputs_.begin())) {
      std::string text = "the scalars";
      for (const TensorType& type : expected) text += " " + std::string(to_string(type.dtype));
      refuse(op_, text, inputs_.first(expected.size()));
    }
  }
  /// Floating tensors with the shapes of group 0, or where `transposed` says so those of its
  /// transposes.
  void check_shapes(std::size_t group, const std::vector<bool>& transposed = {}) const {
    for (std::size_t i = 0; i < count_; ++i) {
      check_pair(type(0, i), type(group, i), !transposed.empty() && transposed[i]);
    }
  }
  void check_pair(const TensorType& variable, const TensorType& other, bool transposed) const {
    const Shape expected = transposed ? transposed_shape(variable.shape) : variable.shape;
    if (is_floating(variable.dtype) && is_floating(other.dtype) && other.shape == expected) return;
    const TensorType pair[] = {variable, other};
    refuse(op_,
           transposed ? "floating tensors, one the other's transpose"
                      : "floating tensors of one shape",
           pair);
  }
  /// Tensors that hold for each of group 0 a value in the precision of its update.
  void check_slots(std::size_t group) const {
    check_shapes(group);
    for (std::size_t i = 0; i < count_; ++i) {
      const TensorType pair[] = {type(0, i), type(group, i)};
      if (pair[1].dtype != accumulation_dtype(pair[0].dtype)) {
        refuse(op_, "a slot of the variable's accumulation dtype", pair);
      }
    }
  }
  void append_types(std::size_t group, std::vector<TensorType>& types) const {
    for (std::size_t i = 0; i < count_; ++i) types.push_back(type(group, i));
  }

 private:
  const char* op_;
  Types inputs_;
  std::size_t controls_;
  std::size_t count_;
};

std::vector<TensorType> infer_update(const char* op, const InferContext& context,
                                     const ops::UpdateAttributes& common, std::size_t slots) {
  const std::size_t controls = ops::kControls + (common.clipped ? 1 : 0);
  const std::size_t lists_end =
      context.inputs.size() - std::min(common.copies.size(), context.inputs.size());
  const Lists lists(op, context.inputs.first(lists_end), controls, 2 + slots);
  lists.check_controls({kNumber, kNumber, kFlag, kCounter});
  const auto count = static_cast<std::int64_t>(lists.count());
  if (common.clipped) {
    const TensorType& clip = context.inputs[ops::kControls];
    if (clip.dtype != DType::kFloat32 || clip.shape.rank() != 1 ||
        (clip.shape[0] != 1 && clip.shape[0] != count)) {
      refuse(op, "clip coefficients float32[1] or one a variable", {&clip, 1});
    }
  }
  if (!common.decayed.empty() && common.decayed.size() != lists.count()) {
    internal::fail_argument(op, fmt::format("expected {} entries in decayed. Received: {}.", count,
                                            common.decayed.size()));
  }
  std::vector<TensorType> types;
  DEMI_CHECK(
      common.transposed_gradients.empty() || common.transposed_gradients.size() == lists.count(),
      "one entry a variable in transposed_gradients");
  lists.check_shapes(1, common.transposed_gradients);
  lists.append_types(0, types);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    lists.check_slots(2 + slot);
    lists.append_types(2 + slot, types);
  }
  for (std::size_t i = 0; i < common.copies.size(); ++i) {
    const auto& [variable, transposed] = common.copies[i];
    DEMI_CHECK(variable < lists.count(), "a copy of a variable that is not there");
    lists.check_pair(lists.type(0, variable), context.inputs[lists_end + i], transposed);
    types.push_back(context.inputs[lists_end + i]);
  }
  return types;
}

std::size_t slots_of(const ops::AdamAttributes& attributes) {
  return attributes.amsgrad ? 3 : 2;
}
std::size_t slots_of(const ops::SgdAttributes& attributes) {
  return attributes.momentum != 0 ? 1 : 0;
}

template <class A>
UpdateOperands operands_of(const Node& node) {
  const auto& a = node.attributes.as<A>();
  UpdateOperands operands;
  operands.first_variable = ops::kControls + (a.common.clipped ? 1 : 0);
  operands.variables =
      (node.inputs.size() - operands.first_variable - a.common.copies.size()) / (2 + slots_of(a));
  operands.first_gradient = operands.first_variable + operands.variables;
  return operands;
}

/// Variables are overwritten by the first outputs, and what comes after the gradients by the
/// others.
std::vector<Overwrite> overwrites_update(const UpdateOperands& operands, std::size_t outputs) {
  std::vector<Overwrite> pairs;
  for (std::size_t i = 0; i < outputs; ++i) {
    const std::size_t gradients = i < operands.variables ? 0 : operands.variables;
    pairs.push_back(
        {static_cast<int>(operands.first_variable + gradients + i), static_cast<int>(i)});
  }
  return pairs;
}

template <class A, const char* kName>
void add_update(OpRegistry& registry) {
  registry.add({.name = kName,
                .infer =
                    [](const InferContext& context) {
                      const auto& a = context.attributes.as<A>();
                      return infer_update(kName, context, a.common, slots_of(a));
                    },
                .autocast = AutocastRule::kKeep,
                .overwrites =
                    [](const Node& node) {
                      return overwrites_update(operands_of<A>(node), node.outputs.size());
                    }});
}

std::vector<TensorType> infer_clip_coefficients(const InferContext& context) {
  const Lists lists("clip_coefficients", context.inputs, 1, 1);
  lists.check_controls({kNumber});
  lists.check_shapes(0);
  const bool global = context.attributes.as<ops::ClipAttributes>().global;
  return {{{global ? 1 : static_cast<std::int64_t>(lists.count())}, DType::kFloat32}};
}

std::vector<TensorType> infer_accumulate_gradients(const InferContext& context) {
  const Lists lists("accumulate_gradients", context.inputs, 3, 2);
  lists.check_controls({kNumber, kFlag, kCounter});
  lists.check_shapes(1);
  std::vector<TensorType> types;
  lists.append_types(0, types);
  return types;
}

std::vector<Overwrite> overwrites_accumulators(const Node& node) {
  std::vector<Overwrite> pairs;
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) pairs.push_back({3 + i, i});
  return pairs;
}

std::vector<TensorType> infer_ema_update(const InferContext& context) {
  const Lists lists("ema_update", context.inputs, 2, 2);
  lists.check_controls({kFlag, kCounter});
  lists.check_slots(1);
  std::vector<TensorType> types;
  lists.append_types(1, types);
  if (context.attributes.as<ops::EmaAttributes>().overwrite_frequency > 0) {
    lists.append_types(0, types);
  }
  return types;
}

/// Averages, then the variables where they are overwritten too.
std::vector<Overwrite> overwrites_averages(const Node& node) {
  const int count = (static_cast<int>(node.inputs.size()) - 2) / 2;
  std::vector<Overwrite> pairs;
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
    pairs.push_back({i < count ? 2 + count + i : 2 + i - count, i});
  }
  return pairs;
}

constexpr char kAdam[] = "adam_update";
constexpr char kSgd[] = "sgd_update";

}  // namespace

std::optional<UpdateOperands> update_operands(const Node& node) {
  if (node.attributes.holds<ops::AdamAttributes>()) return operands_of<ops::AdamAttributes>(node);
  if (node.attributes.holds<ops::SgdAttributes>()) return operands_of<ops::SgdAttributes>(node);
  return std::nullopt;
}

ops::UpdateAttributes common_attributes(const Node& node) {
  if (node.attributes.holds<ops::AdamAttributes>()) {
    return node.attributes.as<ops::AdamAttributes>().common;
  }
  return node.attributes.as<ops::SgdAttributes>().common;
}

Attributes with_common_attributes(const Node& node, ops::UpdateAttributes common) {
  if (node.attributes.holds<ops::AdamAttributes>()) {
    auto attributes = node.attributes.as<ops::AdamAttributes>();
    attributes.common = std::move(common);
    return attributes;
  }
  auto attributes = node.attributes.as<ops::SgdAttributes>();
  attributes.common = std::move(common);
  return attributes;
}

void register_optimizer_update_ops(OpRegistry& registry) {
  add_update<ops::AdamAttributes, kAdam>(registry);
  add_update<ops::SgdAttributes, kSgd>(registry);
  registry.add({.name = "clip_coefficients",
                .infer = infer_clip_coefficients,
                .autocast = AutocastRule::kKeep});
  registry.add({.name = "accumulate_gradients",
                .infer = infer_accumulate_gradients,
                .autocast = AutocastRule::kKeep,
                .overwrites = overwrites_accumulators});
  registry.add({.name = "ema_update",
                .infer = infer_ema_update,
                .autocast = AutocastRule::kKeep,
                .overwrites = overwrites_averages});
}

}  // namespace ir
}  // namespace demi
