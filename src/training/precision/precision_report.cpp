#include "src/training/precision/precision_report.h"

#include <algorithm>
#include <cmath>

#include <demi/ops/loss_scale.h>
#include <fmt/format.h>

namespace demi {
namespace internal {
namespace {

constexpr double kFloat16Max = 65504;
/// Powers of two between the largest gradient and the end of float16 at the recommended scale.
constexpr int kHeadroom = 3;
/// Share of the gradients that may become 0 without a word.
constexpr double kTolerableFlush = 0.01;
/// Share of a layer's gradients that may become 0 at the recommended scale.
constexpr double kLostLayer = 0.2;

int shift_of(double scale) {
  return static_cast<int>(std::floor(std::log2(scale)));
}

RangeSummary summarize(const ValueRange& range, int shift) {
  RangeSummary summary{.max_abs = std::ldexp(range.max_abs, shift),
                       .overflowing = range.overflow_share(shift),
                       .flushed = range.flush_share(shift)};
  const auto bad = static_cast<double>(range.infinities + range.nans);
  if (bad > 0) summary.non_finite = bad / static_cast<double>(range.all());
  for (std::size_t i = 0; i < range.exponents.size(); ++i) {
    if (range.exponents[i] == 0) continue;
    summary.exponents.emplace_back(ValueRange::kLowestExponent + static_cast<int>(i) + shift,
                                   range.exponents[i]);
  }
  return summary;
}

ValueRange all_gradients(const LayerRanges& ranges) {
  ValueRange all;
  for (const LayerRange& range : ranges) all.add(range.gradient);
  return all;
}

double recommended_scale(const ValueRange& gradients, double current) {
  if (gradients.max_abs == 0) return current;
  const int shift = shift_of(kFloat16Max / gradients.max_abs) - kHeadroom;
  return std::clamp(std::ldexp(1.0, shift), ops::kMinLossScale, ops::kMaxLossScale);
}

std::string name_of(const std::string& layer) {
  return layer.empty() ? "the loss" : "layer '" + layer + "'";
}

std::string percent(double share) {
  return fmt::format("{:.3g} %", share * 100);
}

void keep_in_float32(PrecisionReport& report, const std::string& layer) {
  auto& kept = report.keep_float32;
  if (std::find(kept.begin(), kept.end(), layer) == kept.end()) kept.push_back(layer);
}

/// The first layer that is not finite in float32 either. Returns whether there is one.
bool judge_float32(PrecisionReport& report) {
  for (const LayerPrecision& layer : report.layers) {
    if (layer.activation.non_finite == 0) continue;
    report.findings.push_back(fmt::format(
        "{}, forward: {} of the values are NaN or infinite in float32 too. Not a matter of "
        "float16: look at the data, the learning rate and the layer's formula.",
        name_of(layer.layer), percent(layer.activation.non_finite)));
    return true;
  }
  return false;
}

void judge_activations(PrecisionReport& report) {
  for (const LayerPrecision& layer : report.layers) {
    if (layer.activation.overflowing == 0) continue;
    report.findings.push_back(fmt::format(
        "{}, forward: |activation| up to {:.3g} is beyond float16 ({} of the values), which no "
        "loss scale heals. Keep the layer in float32 (.dtype = \"float32\") or make its input "
        "smaller.",
        name_of(layer.layer), layer.activation.max_abs, percent(layer.activation.overflowing)));
    keep_in_float32(report, layer.layer);
  }
}

void judge_scale(PrecisionReport& report, const ValueRange& gradients) {
  const double now = gradients.flush_share(shift_of(report.loss_scale));
  const double then = gradients.flush_share(shift_of(report.recommended_scale));
  const double over = gradients.overflow_share(shift_of(report.loss_scale));
  if (over > 0 && report.loss_scale > report.recommended_scale) {
    report.findings.push_back(fmt::format(
        "backward: {} of the gradients are beyond float16 at the loss scale {:g}. Lower it: {:g} "
        "leaves room (a dynamic scale gets there by itself).",
        percent(over), report.loss_scale, report.recommended_scale));
  } else if (now > kTolerableFlush && report.recommended_scale > report.loss_scale) {
    report.findings.push_back(fmt::format(
        "backward: {} of the gradients become 0 in float16 at the loss scale {:g}. Raise it: at "
        "{:g} it is {}.",
        percent(now), report.loss_scale, report.recommended_scale, percent(then)));
  }
}

void judge_gradients(PrecisionReport& report, const LayerRanges& ranges) {
  const int shift = shift_of(report.recommended_scale);
  for (const LayerRange& range : ranges) {
    const double lost = range.gradient.flush_share(shift);
    if (lost <= kLostLayer) continue;
    report.findings.push_back(fmt::format(
        "{}, backward: {} of the gradients become 0 in float16 even at the loss scale {:g}, "
        "beyond which others overflow. Keep the layer in float32.",
        name_of(range.layer), percent(lost), report.recommended_scale));
    keep_in_float32(report, range.layer);
  }
}

}  // namespace

PrecisionReport make_report(const LayerRanges& ranges, std::int64_t looks, std::int64_t last_step,
                            double loss_scale) {
  PrecisionReport report{.looks = looks, .last_step = last_step, .loss_scale = loss_scale};
  const ValueRange gradients = all_gradients(ranges);
  report.recommended_scale = recommended_scale(gradients, loss_scale);
  for (const LayerRange& range : ranges) {
    report.layers.push_back({.layer = range.layer,
                             .activation = summarize(range.activation, 0),
                             .gradient = summarize(range.gradient, shift_of(loss_scale))});
  }
  if (looks == 0) return report;
  if (!judge_float32(report)) {
    judge_activations(report);
    judge_scale(report, gradients);
    judge_gradients(report, ranges);
  }
  if (report.findings.empty()) {
    report.findings.push_back(fmt::format(
        "float16 holds what was looked at: {} of the gradients become 0 at the loss scale {:g}.",
        percent(gradients.flush_share(shift_of(loss_scale))), loss_scale));
  }
  return report;
}

}  // namespace internal

std::string to_string(const PrecisionReport& report) {
  if (report.looks == 0) return "Precision: no step was looked at\n";
  std::string text = fmt::format(
      "Precision after {} look{}, the last at step {}, loss scale {:g}, recommended {:g}\n"
      "{:28} {:>11} {:>9} {:>9}   {:>11} {:>9} {:>9}\n"
      "{:28} {:>11} {:>9} {:>9}   {:>11} {:>9} {:>9}\n",
      report.looks, report.looks == 1 ? "" : "s", report.last_step, report.loss_scale,
      report.recommended_scale, "", "max", "overflow", "flushed", "max", "overflow", "flushed",
      "layer", "|activation|", "%", "%", "|gradient|", "%", "%");
  for (const LayerPrecision& layer : report.layers) {
    const RangeSummary& a = layer.activation;
    const RangeSummary& g = layer.gradient;
    text +=
        fmt::format("{:28} {:>12.3g} {:>9.3g} {:>9.3g}  {:>11.3g} {:>9.3g} {:>9.3g}\n",
                    layer.layer.empty() ? "(losses)" : layer.layer, a.max_abs, a.overflowing * 100,
                    a.flushed * 100, g.max_abs, g.overflowing * 100, g.flushed * 100);
  }
  for (const std::string& finding : report.findings) text += "- " + finding + "\n";
  return text;
}

}  // namespace demi
