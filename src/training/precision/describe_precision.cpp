#include "src/training/precision/describe_precision.h"

#include <algorithm>
#include <map>

#include <demi/ops/conv2d.h>
#include <demi/ops/matmul.h>
#include <fmt/format.h>

#include "src/ir/work.h"

namespace demi::internal {
namespace {

/// Of the largest floating operand that is read: parameters and scales do not decide what an op
/// computes in.
DType computed_dtype(const ir::Graph& graph, const ir::Node& node, DType otherwise) {
  DType dtype = otherwise;
  std::int64_t most = -1;
  for (const ir::ValueId value : node.inputs) {
    const TensorType& type = graph.type(value);
    if (!is_floating(type.dtype) || type.shape.elements() <= most) continue;
    most = type.shape.elements();
    dtype = type.dtype;
  }
  return dtype;
}

/// The 16-bit dtype that most of the model's layers compute in; float32 if they do not.
DType narrow_dtype(const ir::Graph& graph) {
  std::map<DType, int> counts;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (!node.scope.layer.empty() && is_half(node.scope.compute_dtype)) {
      ++counts[node.scope.compute_dtype];
    }
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? DType::kFloat32 : most->first;
}

std::string fallback_reason(const ir::Node& node, const OpPrecision& op, DType narrow) {
  if (!is_half(narrow) || node.scope.phase == ir::Phase::kUpdate) return "";
  if (op.computed != DType::kFloat32) return "";
  if (op.op == "cast") {
    return is_half(op.stored) ? fmt::format("brings a float32 value to {}", to_string(op.stored))
                              : "";
  }
  if (node.op->autocast == ir::AutocastRule::kFloat32) {
    return "softmax, losses and statistics are float32 by rule";
  }
  if (node.scope.layer.empty()) return "losses and metrics are float32 by rule";
  if (!is_half(node.scope.compute_dtype)) {
    return fmt::format("the layer's own policy computes in {}",
                       to_string(node.scope.compute_dtype));
  }
  return "what it reads is float32";
}

/// Bytes of float32 operands beyond those of 16-bit ones.
std::size_t bytes_beyond_half(const ir::Graph& graph, const ir::Node& node) {
  std::size_t bytes = 0;
  const auto add = [&](ir::ValueId value) {
    const TensorType& type = graph.type(value);
    if (type.dtype == DType::kFloat32) bytes += type.bytes() / 2;
  };
  for (const ir::ValueId value : node.inputs) add(value);
  for (const ir::ValueId value : node.outputs) add(value);
  return bytes;
}

std::string why_no_tensor_cores(const ir::Graph& graph, const ir::Node& node, const Kernel& kernel,
                                const OpPrecision& op, const std::optional<DevicePeaks>& peaks) {
  if (!peaks) return "the CPU has none";
  if (!op.uses_tensor_cores) return "the library chooses on the device";
  if (op.computed == DType::kFloat64) return "it computes in float64";
  if (op.computed == DType::kFloat32) {
    if (peaks->tf32_flops == 0) return "float32, and this GPU has no TF32";
    if (!peaks->allows_tf32) return "float32, and TF32 is not allowed";
  } else if (tensor_core_flops(*peaks, op.computed) == 0) {
    return fmt::format("this GPU has none for {}", to_string(op.computed));
  }
  if (!is_of_library(op))
    return "'" + kernel.name() + "', the first kernel that takes it, uses none";
  const std::string extent = odd_extent(graph, node);
  return extent.empty() ? "the chosen engine uses none" : extent + ": no multiple of 8";
}

/// The description without what stands elsewhere in the report.
std::string short_description(const Kernel& kernel) {
  const std::string whole = kernel.description();
  return whole.substr(0, std::min({whole.size(), whole.find(" ("), whole.find(", workspace")}));
}

/// The larger of operations ÷ peak and bytes ÷ bandwidth.
double estimate(const DevicePeaks& peaks, double multiply_adds, double flops, double bytes) {
  const double moving = peaks.bytes_per_second > 0 ? bytes / peaks.bytes_per_second : 0;
  return std::max(moving, flops > 0 ? 2 * multiply_adds / flops : 0);
}

void add_time(OpPrecision& op, const DevicePeaks& peaks, double multiply_adds, double bytes,
              bool may_use_tensor_cores, DType narrow) {
  const double wide = peaks.float32_flops;
  const double fast = tensor_core_flops(peaks, op.computed);
  op.seconds =
      estimate(peaks, multiply_adds, may_use_tensor_cores && fast > 0 ? fast : wide, bytes);
  if (op.fallback.empty()) return;
  const double narrow_flops = tensor_core_flops(peaks, narrow);
  op.extra_seconds =
      *op.seconds - estimate(peaks, multiply_adds, narrow_flops > 0 ? narrow_flops : wide,
                             bytes - static_cast<double>(op.extra_bytes));
}

OpPrecision describe(const plan::Plan& plan, const plan::Step& step, DType narrow,
                     const std::optional<DevicePeaks>& peaks) {
  const ir::Graph& graph = *plan.graph;
  const ir::Node& node = graph.node(step.node);
  OpPrecision op;
  op.layer = node.scope.layer;
  op.phase = ir::to_string(node.scope.phase);
  op.op = node.op->name;
  op.requested = node.scope.compute_dtype;
  op.computed = computed_dtype(graph, node, op.requested);
  op.stored = graph.type(node.outputs[0]).dtype;
  op.accumulation = op.computed == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  op.kernel = short_description(*step.kernel);
  op.multiplies = node.op->multiply_adds != nullptr;
  const TensorCores tensor_cores = step.kernel->tensor_cores();
  op.uses_tensor_cores = tensor_cores == TensorCores::kUnknown
                             ? std::nullopt
                             : std::optional(tensor_cores == TensorCores::kYes);
  if (op.multiplies && !op.uses_tensor_cores.value_or(false)) {
    op.without_tensor_cores = why_no_tensor_cores(graph, node, *step.kernel, op, peaks);
  }
  op.fallback = fallback_reason(node, op, narrow);
  if (!op.fallback.empty()) op.extra_bytes = bytes_beyond_half(graph, node);
  if (op.extra_bytes == 0) op.fallback.clear();
  if (peaks) {
    add_time(op, *peaks, ir::multiply_adds(graph, node),
             static_cast<double>(ir::moved_bytes(graph, node)), tensor_cores != TensorCores::kNo,
             narrow);
  }
  return op;
}

}  // namespace

bool is_of_library(const OpPrecision& op) {
  return op.kernel.rfind("cudnn", 0) == 0 || op.kernel.rfind("cublaslt", 0) == 0;
}

double tensor_core_flops(const DevicePeaks& peaks, DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return peaks.float16_flops;
    case DType::kBFloat16:
      return peaks.bfloat16_flops;
    case DType::kFloat32:
      return peaks.allows_tf32 ? peaks.tf32_flops : 0;
    default:
      return 0;
  }
}

PrecisionPlan describe_precision(const plan::Plan& plan, const Backend& backend) {
  PrecisionPlan precision;
  precision.device = backend.name();
  precision.narrow = narrow_dtype(*plan.graph);
  const std::optional<DevicePeaks> peaks = backend.peaks();
  for (const plan::Step& step : plan.steps) {
    precision.ops.push_back(describe(plan, step, precision.narrow, peaks));
  }
  precision.hints = precision_hints(precision, plan, peaks);
  return precision;
}

}  // namespace demi::internal
