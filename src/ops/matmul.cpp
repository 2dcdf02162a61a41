#include <demi/ops/matmul.h>

#include <fmt/format.h>

#include <demi/ops/cast.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi::ops {

std::string describe(const MatmulAttributes& attributes) {
  std::string text;
  const auto add = [&text](std::string_view part) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", part);
  };
  if (attributes.transpose_a) add("transpose_a");
  if (attributes.transpose_b) add("transpose_b");
  if (attributes.has_bias) add("bias");
  if (attributes.activation != Activation::kNone) {
    add(fmt::format("activation={}", to_string(attributes.activation)));
  }
  if (attributes.relu_backward) add("relu_backward");
  if (attributes.bias_gradient) add("bias_gradient");
  return text;
}

SymbolicTensor matmul(const SymbolicTensor& a, const SymbolicTensor& b, bool transpose_a,
                      bool transpose_b) {
  return ir::emit("matmul", {a, b},
                  MatmulAttributes{.transpose_a = transpose_a, .transpose_b = transpose_b});
}

}  // namespace demi::ops

namespace demi::ir {
namespace {

using ops::MatmulAttributes;

double matmul_multiply_adds(const InferContext& context) {
  const auto& attributes = context.attributes.as<MatmulAttributes>();
  const std::int64_t columns = context.inputs[1].shape[attributes.transpose_b ? 0 : 1];
  return static_cast<double>(context.inputs[0].shape.elements()) * static_cast<double>(columns);
}

std::vector<TensorType> infer_matmul(const InferContext& context) {
  const auto& attributes = context.attributes.as<MatmulAttributes>();
  DEMI_CHECK(context.inputs.size() == (attributes.has_bias || attributes.relu_backward ? 3 : 2),
             "matmul takes a, b and, if it has one, a bias or the y of a relu");
  const TensorType& a = context.inputs[0];
  const TensorType& b = context.inputs[1];
  if (a.shape.rank() != 2 || b.shape.rank() != 2 || !is_floating(a.dtype) ||
      !is_floating(b.dtype)) {
    refuse("matmul", "two floating matrices (rank 2)", context.inputs.first(2));
  }
  const std::int64_t m = a.shape[attributes.transpose_a ? 1 : 0];
  const std::int64_t a_inner = a.shape[attributes.transpose_a ? 0 : 1];
  const std::int64_t b_inner = b.shape[attributes.transpose_b ? 1 : 0];
  const std::int64_t n = b.shape[attributes.transpose_b ? 0 : 1];
  if (a_inner != b_inner && a_inner != Shape::kUnknown && b_inner != Shape::kUnknown) {
    refuse("matmul",
           fmt::format("inner extents that agree (transpose_a={}, transpose_b={})",
                       attributes.transpose_a, attributes.transpose_b),
           context.inputs.first(2));
  }
  DEMI_CHECK(!attributes.has_bias || context.inputs[2].shape == Shape{n}, "the bias must be [n]");
  const DType dtype = promote(a.dtype, b.dtype);
  DEMI_CHECK(!attributes.relu_backward || context.inputs[2] == (TensorType{Shape{m, n}, dtype}),
             "the y of a relu must be like the product");
  std::vector<TensorType> types = {{Shape{m, n}, dtype}};
  if (attributes.bias_gradient) types.push_back({Shape{n}, accumulation_dtype(b.dtype)});
  return types;
}

std::vector<SymbolicTensor> matmul_gradient(const GradientContext& context) {
  const auto& attributes = context.attributes.as<MatmulAttributes>();
  DEMI_CHECK(!attributes.has_bias && attributes.activation == ops::Activation::kNone,
             "fused nodes are made after differentiation");
  const bool ta = attributes.transpose_a;
  const bool tb = attributes.transpose_b;
  const SymbolicTensor& a = context.inputs[0];
  const SymbolicTensor& b = context.inputs[1];
  const SymbolicTensor& dy = context.output_gradients[0];
  std::vector<SymbolicTensor> gradients(2);
  if (context.needed[0]) {
    const SymbolicTensor da = ta ? ops::matmul(b, dy, tb, true) : ops::matmul(dy, b, false, !tb);
    gradients[0] = ops::cast(da, a.dtype());
  }
  if (context.needed[1]) {
    const SymbolicTensor db = tb ? ops::matmul(dy, a, true, ta) : ops::matmul(a, dy, !ta, false);
    gradients[1] = ops::cast(db, b.dtype());
  }
  return gradients;
}

}  // namespace

void register_matmul_ops(OpRegistry& registry) {
  registry.add({.name = "matmul",
                .infer = infer_matmul,
                .autocast = AutocastRule::kLowPrecision,
                .gradient = matmul_gradient,
                .multiply_adds = matmul_multiply_adds,
                .store = StoreRule::kAccumulation});
}

}  // namespace demi::ir
