#include <demi/ops/gather_rows.h>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {

std::string describe(const GatherRowsAttributes& attributes) {
  std::string text;
  for (const RescaleAttributes& rescale : attributes.rescales) {
    if (!text.empty()) text += ", ";
    text += rescale == RescaleAttributes() ? "as stored" : describe(rescale);
  }
  return text;
}

std::vector<SymbolicTensor> gather_rows(const SymbolicTensor& rows,
                                        const std::vector<SymbolicTensor>& arrays,
                                        std::vector<RescaleAttributes> rescales) {
  if (rescales.empty()) rescales.resize(arrays.size());
  if (rescales.size() != arrays.size()) {
    internal::fail_argument("gather_rows",
                            fmt::format("expected one rescale for each of {} arrays. Received: {}.",
                                        arrays.size(), rescales.size()));
  }
  std::vector<SymbolicTensor> inputs = {rows};
  inputs.insert(inputs.end(), arrays.begin(), arrays.end());
  return ir::emit_all("gather_rows", std::move(inputs), GatherRowsAttributes{std::move(rescales)});
}

}  // namespace ops

namespace ir {
namespace {

std::vector<TensorType> infer_gather_rows(const InferContext& context) {
  constexpr const char* kExpected = "int64 row numbers [m] and arrays with a first axis";
  const auto& rescales = context.attributes.as<ops::GatherRowsAttributes>().rescales;
  if (context.inputs.size() < 2 || context.inputs[0].dtype != int64 ||
      context.inputs[0].shape.rank() != 1) {
    refuse("gather_rows", kExpected, context.inputs);
  }
  std::vector<TensorType> outputs;
  for (std::size_t i = 1; i < context.inputs.size(); ++i) {
    const TensorType& x = context.inputs[i];
    if (x.shape.rank() == 0) refuse("gather_rows", kExpected, context.inputs);
    const bool as_stored = rescales[i - 1] == ops::RescaleAttributes();
    if (!as_stored && x.dtype == boolean) {
      refuse("gather_rows", "numbers where there is a rescale", context.inputs);
    }
    outputs.push_back({x.shape.without_front().with_front(context.inputs[0].shape[0]),
                       as_stored || is_floating(x.dtype) ? x.dtype : float32});
  }
  return outputs;
}

std::vector<SymbolicTensor> refuse_gradient(const GradientContext&) {
  internal::fail_argument("gather_rows",
                          "expected data, which need no gradient. Received: values that depend on "
                          "a variable that is trained.");
}

}  // namespace

void register_gather_rows_ops(OpRegistry& registry) {
  registry.add({.name = "gather_rows",
                .infer = infer_gather_rows,
                .autocast = AutocastRule::kKeep,
                .gradient = refuse_gradient,
                .store = StoreRule::kAnyFloating});
}

}  // namespace ir
}  // namespace demi
