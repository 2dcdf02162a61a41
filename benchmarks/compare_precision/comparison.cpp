#include "benchmarks/compare_precision/comparison.h"

#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/compare_precision/statistics.h"

namespace demi::benchmarks {
namespace {

using Json = nlohmann::json;

/// A row of the table and a number of the summary.
struct Quantity {
  const char* path;   ///< in a run: "planned_bytes/weights"
  const char* label;  ///< with the unit
  double scale;       ///< from the number in JSON to the one in the table
  int digits;         ///< after the point, in the table
  bool has_ratio;
};

constexpr Quantity kQuantities[] = {
    {"test_accuracy", "test accuracy, %", 100, 2, false},
    {"test_loss", "test loss", 1, 4, true},
    {"images_per_second", "images/s", 1, 0, true},
    {"step_ms_median", "ms/step, median", 1, 2, true},
    {"first_step_seconds", "first step after, s", 1, 2, true},
    {"planned_bytes/activations", "planned activations, MB", 1e-6, 2, true},
    {"planned_bytes/weights", "planned weights, MB", 1e-6, 2, true},
    {"planned_bytes/compute_copies", "planned 16-bit copies, MB", 1e-6, 2, false},
    {"planned_bytes/gradients", "planned gradients, MB", 1e-6, 2, true},
    {"planned_bytes/optimizer", "planned optimizer, MB", 1e-6, 2, true},
    {"planned_bytes/workspace", "planned workspace, MB", 1e-6, 2, true},
    {"planned_bytes/total", "planned total, MB", 1e-6, 2, true},
    {"peak_rss_bytes", "measured peak RSS, MB", 1e-6, 1, true},
    {"skipped_steps", "skipped steps", 1, 1, false},
    {"loss_scale", "final loss scale", 1, 0, false},
};

/// NaN where the run has none (JSON has no NaN and holds null).
double number_at(const Json& run, const std::string& path) {
  const Json& value = run.at(Json::json_pointer("/" + path));
  return value.is_null() ? std::nan("") : value.get<double>();
}

std::vector<double> numbers(const Json& runs, const std::string& policy, const std::string& path) {
  std::vector<double> values;
  for (const Json& run : runs) {
    if (run.at("policy") == policy) values.push_back(number_at(run, path));
  }
  return values;
}

std::string format_sample(const Json& entry, const Quantity& quantity) {
  const double mean = number_at(entry, "mean") * quantity.scale;
  const double deviation = number_at(entry, "deviation") * quantity.scale;
  const std::string text = fmt::format("{:.{}f}", mean, quantity.digits);
  if (deviation == 0) return text;
  return text + fmt::format(" ± {:.{}f}", deviation, quantity.digits);
}

std::string format_difference(const Json& summary) {
  const Json& difference = summary.at("difference");
  const double mean = difference.at("mean").get<double>() * 100;
  if (difference.at("half_width").is_null()) return fmt::format("{:+.3f} (one seed)", mean);
  const double half_width = difference.at("half_width").get<double>() * 100;
  return fmt::format("{:+.3f} [{:+.3f}, {:+.3f}]", mean, mean - half_width, mean + half_width);
}

/// Columns of UTF-8 text whose characters are all one column wide.
std::size_t columns(const std::string& text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

/// Cells, the first of each row left-aligned.
std::string align(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], columns(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - columns(row[i]), ' ');
      line += i == 0 ? row[i] + padding : "  " + padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace

Json summarize_runs(const Json& runs, const std::vector<std::string>& policies) {
  Json summary = Json::object();
  const std::string& base = policies.front();
  for (const std::string& policy : policies) {
    Json entry = Json::object();
    for (const Quantity& quantity : kQuantities) {
      const Sample sample = summarize(numbers(runs, policy, quantity.path));
      Json cell = {{"mean", sample.mean}, {"deviation", sample.deviation}};
      const double base_mean = summarize(numbers(runs, base, quantity.path)).mean;
      if (policy != base && quantity.has_ratio && base_mean != 0) {
        cell["ratio"] = sample.mean / base_mean;
      }
      entry[Json::json_pointer(std::string("/") + quantity.path)] = std::move(cell);
    }
    if (policy != base) {
      const PairedDifference difference = paired_difference(numbers(runs, base, "test_accuracy"),
                                                            numbers(runs, policy, "test_accuracy"));
      entry["difference"] = {
          {"mean", difference.mean},
          {"half_width",
           std::isfinite(difference.half_width) ? Json(difference.half_width) : Json()}};
    }
    summary[policy] = std::move(entry);
  }
  return summary;
}

std::vector<std::vector<std::string>> table_rows(const Json& summary,
                                                 const std::vector<std::string>& policies) {
  std::vector<std::vector<std::string>> rows(1, {""});
  for (std::size_t i = 0; i < policies.size(); ++i) {
    rows[0].push_back(policies[i]);
    if (i > 0) rows[0].push_back("ratio");
  }
  for (const Quantity& quantity : kQuantities) {
    std::vector<std::string> row = {quantity.label};
    for (std::size_t i = 0; i < policies.size(); ++i) {
      const Json& cell =
          summary.at(policies[i]).at(Json::json_pointer(std::string("/") + quantity.path));
      row.push_back(format_sample(cell, quantity));
      if (i == 0) continue;
      row.push_back(cell.contains("ratio") ? fmt::format("{:.3f}", number_at(cell, "ratio")) : "");
    }
    rows.push_back(std::move(row));
    if (std::string(quantity.path) != "test_accuracy" || policies.size() < 2) continue;
    std::vector<std::string> differences = {"  difference [95 %], points", ""};
    for (std::size_t i = 1; i < policies.size(); ++i) {
      differences.push_back(format_difference(summary.at(policies[i])));
      differences.push_back("");
    }
    rows.push_back(std::move(differences));
  }
  return rows;
}

std::string format_table(const Json& summary, const std::vector<std::string>& policies) {
  return align(table_rows(summary, policies));
}

}  // namespace demi::benchmarks
