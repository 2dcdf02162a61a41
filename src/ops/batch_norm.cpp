#include <demi/ops/batch_norm.h>

#include <cmath>

#include <fmt/format.h>

#include <demi/ops/cast.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi::ops {
namespace {

BatchNormAttributes attributes_of(const char* where, double epsilon) {
  if (!(epsilon >= 0) || !std::isfinite(epsilon)) {
    internal::fail_argument(
        where, fmt::format("expected a finite epsilon of at least 0. Received: {}.", epsilon));
  }
  return {.epsilon = epsilon};
}

}  // namespace

std::string describe(const BatchNormAttributes& attributes) {
  std::string text = fmt::format("epsilon={}", attributes.epsilon);
  if (attributes.activation != Activation::kNone) {
    text += fmt::format(", activation={}", to_string(attributes.activation));
  }
  return text;
}

BatchNormResult batch_norm_train(const SymbolicTensor& x, const SymbolicTensor& gamma,
                                 const SymbolicTensor& beta, double epsilon) {
  const auto outputs = ir::emit_all("batch_norm_train", {x, gamma, beta},
                                    attributes_of("batch_norm_train", epsilon));
  return {outputs[0], outputs[1], outputs[2]};
}

SymbolicTensor batch_norm_inference(const SymbolicTensor& x, const SymbolicTensor& gamma,
                                    const SymbolicTensor& beta, const SymbolicTensor& mean,
                                    const SymbolicTensor& variance, double epsilon) {
  return ir::emit("batch_norm_inference", {x, gamma, beta, mean, variance},
                  attributes_of("batch_norm_inference", epsilon));
}

}  // namespace demi::ops

namespace demi::ir {
namespace {

using ops::Activation;
using ops::BatchNormAttributes;

/// Refuses unless x is floating of rank ≥ 1 and each of `parameters` is a floating [c].
void check_inputs(const char* where, std::span<const TensorType> all, const TensorType& x,
                  std::span<const TensorType> parameters) {
  if (x.shape.rank() < 1 || !is_floating(x.dtype) || x.shape[-1] < 0) {
    refuse(where, "a floating input [..., C] with known channels", {&x, 1});
  }
  for (const TensorType& parameter : parameters) {
    if (parameter.shape != Shape{x.shape[-1]} || !is_floating(parameter.dtype)) {
      refuse(where, fmt::format("floating parameters [{}], one value a channel", x.shape[-1]), all);
    }
  }
}

std::vector<TensorType> infer_train(const InferContext& context) {
  DEMI_CHECK(context.inputs.size() == 3, "batch_norm_train takes x, gamma, beta");
  const TensorType& x = context.inputs[0];
  check_inputs("batch_norm_train", context.inputs, x, context.inputs.subspan(1));
  const TensorType statistic{Shape{x.shape[-1]}, accumulation_dtype(x.dtype)};
  return {x, statistic, statistic, statistic};
}

std::vector<TensorType> infer_inference(const InferContext& context) {
  DEMI_CHECK(context.inputs.size() == 5,
             "batch_norm_inference takes x, gamma, beta, mean, variance");
  const TensorType& x = context.inputs[0];
  check_inputs("batch_norm_inference", context.inputs, x, context.inputs.subspan(1));
  return {x};
}

/// dx, dgamma, dbeta from dy, x, gamma, mean, inv_std (of inference: variance) and, with relu, y.
std::vector<TensorType> infer_backward(const InferContext& context) {
  const auto& attributes = context.attributes.as<BatchNormAttributes>();
  DEMI_CHECK(context.inputs.size() == (attributes.activation == Activation::kNone ? 5 : 6),
             "a batch_norm backward op takes y with an activation and only then");
  const TensorType& dy = context.inputs[0];
  const TensorType& x = context.inputs[1];
  if (dy.shape != x.shape || !is_floating(dy.dtype)) {
    refuse("batch_norm_backward", "dy of the shape of x", context.inputs);
  }
  check_inputs("batch_norm_backward", context.inputs, x, context.inputs.subspan(2, 3));
  const TensorType parameter{Shape{x.shape[-1]}, accumulation_dtype(x.dtype)};
  return {x, parameter, parameter};
}

/// d loss / d (x, gamma, beta) from the outputs of a backward op.
std::vector<SymbolicTensor> parameter_gradients(const GradientContext& context,
                                                const std::vector<SymbolicTensor>& gradients) {
  std::vector<SymbolicTensor> results(context.inputs.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    results[i] = ops::cast(gradients[i], context.inputs[i].dtype());
  }
  return results;
}

std::vector<SymbolicTensor> train_gradient(const GradientContext& context) {
  const SymbolicTensor& dy = context.output_gradients[0];
  if (!dy) return std::vector<SymbolicTensor>(context.inputs.size());
  const auto& attributes = context.attributes.as<BatchNormAttributes>();
  std::vector<SymbolicTensor> inputs = {dy, context.inputs[0], context.inputs[1],
                                        context.outputs[1], context.outputs[3]};
  if (attributes.activation != Activation::kNone) inputs.push_back(context.outputs[0]);
  return parameter_gradients(context,
                             emit_all("batch_norm_backward", std::move(inputs), attributes));
}

std::vector<SymbolicTensor> inference_gradient(const GradientContext& context) {
  const auto& attributes = context.attributes.as<BatchNormAttributes>();
  std::vector<SymbolicTensor> inputs = {context.output_gradients[0], context.inputs[0],
                                        context.inputs[1], context.inputs[3], context.inputs[4]};
  if (attributes.activation != Activation::kNone) inputs.push_back(context.outputs[0]);
  return parameter_gradients(
      context, emit_all("batch_norm_inference_backward", std::move(inputs), attributes));
}

}  // namespace

void register_batch_norm_ops(OpRegistry& registry) {
  constexpr auto kLow = AutocastRule::kLowPrecision;
  constexpr auto kWide = AutocastRule::kFloat32;
  // The kernels read x (and dy) once for the sums before they write anything, then element by
  // element.
  registry.add({.name = "batch_norm_train",
                .infer = infer_train,
                .autocast = kWide,
                .input_autocast = {kLow},
                .gradient = train_gradient,
                .reusable_inputs = {0}});
  registry.add({.name = "batch_norm_inference",
                .infer = infer_inference,
                .autocast = kWide,
                .input_autocast = {kLow},
                .gradient = inference_gradient,
                .reusable_inputs = {0}});
  registry.add({.name = "batch_norm_backward",
                .infer = infer_backward,
                .autocast = AutocastRule::kKeep,
                .reusable_inputs = {0, 1}});
  registry.add({.name = "batch_norm_inference_backward",
                .infer = infer_backward,
                .autocast = AutocastRule::kKeep,
                .reusable_inputs = {0, 1}});
}

}  // namespace demi::ir
