#include <algorithm>
#include <map>
#include <set>

#include <demi/ops/conv2d.h>
#include <demi/ops/matmul.h>
#include <fmt/format.h>

#include "src/ir/work.h"
#include "src/training/memory/format.h"
#include "src/training/precision/describe_precision.h"

namespace demi::internal {
namespace {

/// Shares of a step from which a layer is named.
constexpr double kDominates = 0.25;
constexpr double kCostly = 0.05;
/// What tensor cores multiply without padding.
constexpr std::int64_t kMultiple = 8;

std::string extent(std::int64_t count, const char* what) {
  return count % kMultiple == 0 ? "" : fmt::format("{} {}", count, what);
}

/// Sums by layer, the largest first.
using Shares = std::vector<std::pair<std::string, double>>;
Shares sorted(const std::map<std::string, double>& by_layer) {
  Shares shares(by_layer.begin(), by_layer.end());
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return shares;
}

class Hints {
 public:
  Hints(const PrecisionPlan& precision, const plan::Plan& plan,
        const std::optional<DevicePeaks>& peaks)
      : precision_(precision), plan_(plan), peaks_(peaks) {}

  std::vector<std::string> all() {
    about_the_device();
    about_fallbacks();
    about_dominant_layers();
    if (peaks_ && is_half(precision_.narrow)) about_extents();
    return std::move(hints_);
  }

 private:
  [[nodiscard]] double bytes_of(std::size_t i) const {
    return static_cast<double>(
        ir::moved_bytes(*plan_.graph, plan_.graph->node(plan_.steps[i].node)));
  }

  void about_the_device() {
    const DType narrow = precision_.narrow;
    if (is_half(narrow) && !peaks_) {
      hints_.push_back(fmt::format(
          "{} saves memory on this device, not multiplications: a CPU computes it in float32",
          to_string(narrow)));
    } else if (is_half(narrow) && tensor_core_flops(*peaks_, narrow) == 0) {
      hints_.push_back(fmt::format(
          "this GPU (compute capability {}.{}) has no tensor cores for "
          "{}: prefer mixed_float16",
          peaks_->compute_capability / 10, peaks_->compute_capability % 10, to_string(narrow)));
    } else if (!is_half(narrow) && peaks_ && peaks_->float16_flops > 0) {
      hints_.push_back(
          fmt::format("no layer computes in 16 bits: under mixed_float16 products may run on "
                      "tensor cores, whose "
                      "peak here is {:.0f} times that of float32",
                      peaks_->float16_flops / peaks_->float32_flops));
    }
  }

  void about_fallbacks() {
    std::map<std::string, double> by_layer;
    double total = 0;
    for (std::size_t i = 0; i < precision_.ops.size(); ++i) {
      const OpPrecision& op = precision_.ops[i];
      total += bytes_of(i);
      if (!op.fallback.empty()) by_layer[op.layer] += static_cast<double>(op.extra_bytes);
    }
    for (const auto& [layer, bytes] : sorted(by_layer)) {
      if (bytes < kCostly * total) break;
      hints_.push_back(fmt::format(
          "{} moves {} more in float32 than it would in {}, {:.0f} % of the step's bytes",
          name_of(layer), format_bytes(static_cast<std::size_t>(bytes)),
          to_string(precision_.narrow), 100 * bytes / total));
    }
  }

  void about_dominant_layers() {
    std::map<std::string, double> by_layer;
    double total = 0;
    for (std::size_t i = 0; i < precision_.ops.size(); ++i) {
      const OpPrecision& op = precision_.ops[i];
      const double weight = op.seconds ? *op.seconds : bytes_of(i);
      total += weight;
      if (!op.layer.empty()) by_layer[op.layer] += weight;
    }
    for (const auto& [layer, weight] : sorted(by_layer)) {
      if (weight < kDominates * total) break;
      hints_.push_back(fmt::format("{} takes {:.0f} % of {}", name_of(layer), 100 * weight / total,
                                   peaks_ ? "the estimated time" : "the bytes that are moved"));
    }
  }

  void about_extents() {
    std::set<std::string> told;
    for (std::size_t i = 0; i < precision_.ops.size(); ++i) {
      const OpPrecision& op = precision_.ops[i];
      if (!op.multiplies || !is_half(op.computed) || !is_of_library(op)) continue;
      const std::string odd = odd_extent(*plan_.graph, plan_.graph->node(plan_.steps[i].node));
      if (odd.empty() || !told.insert(op.layer).second) continue;
      hints_.push_back(fmt::format("{} has {}: tensor cores want multiples of {}",
                                   name_of(op.layer), odd, kMultiple));
    }
  }

  static std::string name_of(const std::string& layer) {
    return layer.empty() ? "what belongs to no layer" : "'" + layer + "'";
  }

  const PrecisionPlan& precision_;
  const plan::Plan& plan_;
  const std::optional<DevicePeaks>& peaks_;
  std::vector<std::string> hints_;
};

}  // namespace

std::string odd_extent(const ir::Graph& graph, const ir::Node& node) {
  const auto shape = [&](ir::ValueId value) { return graph.type(value).shape; };
  const Shape first = shape(node.inputs[0]);
  if (node.op->name == "matmul") {
    const auto& attributes = node.attributes.as<ops::MatmulAttributes>();
    const std::string terms = extent(first[attributes.transpose_a ? 0 : 1], "terms");
    return terms.empty() ? extent(shape(node.outputs[0])[1], "columns") : terms;
  }
  if (node.op->name.rfind("conv2d", 0) != 0) return "";
  // The first convolution's image and the last operand's channels; of a gradient dy comes first or
  // second, and its channels are the filters.
  const bool of_input = node.op->name.rfind("conv2d_backward_input", 0) == 0;
  const std::int64_t in = of_input ? shape(node.outputs[0])[3] : first[3];
  const Shape result = shape(node.outputs[0]);
  const bool of_filter = node.op->name.rfind("conv2d_backward_filter", 0) == 0;
  const bool pooled = node.op->name.ends_with("_pooled");
  const std::int64_t out = of_filter  ? shape(node.inputs[1])[3]
                           : of_input ? shape(node.inputs[pooled ? 1 : 0])[3]
                                      : result[3];
  const std::string channels = extent(in, in == 1 ? "input channel" : "input channels");
  return channels.empty() ? extent(out, "filters") : channels;
}

std::vector<std::string> precision_hints(const PrecisionPlan& precision, const plan::Plan& plan,
                                         const std::optional<DevicePeaks>& peaks) {
  return Hints(precision, plan, peaks).all();
}

}  // namespace demi::internal
