#include <demi/precision.h>

#include <algorithm>

#include <fmt/format.h>

#include "src/training/memory/format.h"

namespace demi {
namespace {

using internal::format_bytes;

std::string microseconds(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{:.1f}", *seconds * 1e6) : "-";
}

std::string clipped(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "~";
}

std::string tensor_cores(const OpPrecision& op) {
  if (!op.multiplies) return "-";
  if (!op.uses_tensor_cores) return "?";
  return *op.uses_tensor_cores ? "yes" : "no";
}

/// Each distinct text with how many operations it is said of, in order of appearance.
using Counts = std::vector<std::pair<std::string, int>>;
void count(Counts& counts, const std::string& text) {
  const auto found = std::find_if(counts.begin(), counts.end(),
                                  [&](const auto& entry) { return entry.first == text; });
  if (found == counts.end()) {
    counts.emplace_back(text, 1);
  } else {
    ++found->second;
  }
}

/// Lines of at most 100 columns, indented.
std::string wrapped(const std::string& sentence) {
  constexpr std::size_t kColumns = 100;
  std::string text = " ";
  std::size_t column = 1;
  for (std::size_t begin = 0; begin < sentence.size();) {
    const std::size_t end = std::min(sentence.find(' ', begin), sentence.size());
    if (column + 1 + (end - begin) > kColumns) {
      text += "\n   ";
      column = 3;
    }
    text += " " + sentence.substr(begin, end - begin);
    column += 1 + (end - begin);
    begin = end + 1;
  }
  return text + "\n";
}

std::string operations(int count) {
  return fmt::format("{} operation{}", count, count == 1 ? "" : "s");
}

std::string row(std::size_t number, const OpPrecision& op) {
  const std::string where = op.layer.empty() ? op.op : op.layer + ": " + op.op;
  return fmt::format("{:>4} {:<36} {:<8} {:<8} {:<8} {:<19} {:<3} {:>7}\n", number,
                     clipped(where, 36), to_string(op.requested), to_string(op.computed),
                     to_string(op.stored), clipped(op.kernel, 19), tensor_cores(op),
                     microseconds(op.seconds));
}

std::string fallbacks(const PrecisionPlan& plan) {
  std::string text;
  std::size_t bytes = 0;
  double seconds = 0;
  bool timed = false;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const OpPrecision& op = plan.ops[i];
    if (op.fallback.empty()) continue;
    bytes += op.extra_bytes;
    timed = timed || op.extra_seconds.has_value();
    seconds += op.extra_seconds.value_or(0);
    text += fmt::format(
        "{:>4} {:<52} {:>11}{}\n", i + 1, clipped(op.fallback, 52), format_bytes(op.extra_bytes),
        op.extra_seconds ? fmt::format("{:>9} us", microseconds(op.extra_seconds)) : "");
  }
  if (text.empty()) return "";
  return fmt::format(
      "\nIn float32 although the model computes in {}, and what that moves and takes "
      "more:\n{}{:>57} {:>11}{}\n",
      to_string(plan.narrow), text, "all", format_bytes(bytes),
      timed ? fmt::format("{:>9} us", microseconds(seconds)) : "");
}

}  // namespace

std::string to_string(const PrecisionPlan& plan) {
  std::string text = fmt::format(
      "Precision of one step under {}, batch {}, on {}\nSums are float32, of float64 values "
      "float64.\n{:>4} {:<36} {:<8} {:<8} {:<8} {:<19} {:<3} {:>7}\n",
      plan.policy, plan.batch_size, plan.device, "", "operation", "asked", "computed", "stored",
      "kernel", "TC", "est. us");
  Counts reasons;
  double seconds = 0;
  bool timed = false;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const OpPrecision& op = plan.ops[i];
    text += row(i + 1, op);
    timed = timed || op.seconds.has_value();
    seconds += op.seconds.value_or(0);
    if (op.without_tensor_cores.empty()) continue;
    count(reasons, tensor_cores(op) + ": " + op.without_tensor_cores);
  }
  if (timed) {
    text += fmt::format("{:>100}\n", fmt::format("all {:.1f}", seconds * 1e6));
    text +=
        "est. us: not measured, but the larger of operations / peak and bytes / bandwidth of the "
        "device\n";
  } else {
    text += "est. us: none, as the peaks of this device are not known\n";
  }
  for (const auto& [reason, operations_of] : reasons) {
    text += fmt::format("TC (tensor cores) {} ({})\n", reason, operations(operations_of));
  }
  text += fallbacks(plan);
  if (!plan.hints.empty()) text += "\nHints:\n";
  for (const std::string& hint : plan.hints) text += wrapped(hint);
  return text;
}

}  // namespace demi
