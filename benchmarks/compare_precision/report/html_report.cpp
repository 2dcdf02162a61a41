#include "benchmarks/compare_precision/report/html_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/compare_precision/comparison.h"
#include "benchmarks/compare_precision/report/chart.h"
#include "benchmarks/compare_precision/report/style.h"

namespace demi::benchmarks {
namespace {

using Json = nlohmann::json;
using Policies = std::vector<std::string>;

double number_at(const Json& object, const std::string& key) {
  const Json& value = object.at(key);
  return value.is_number() ? value.get<double>() : std::nan("");
}

std::string cell(const std::string& text, const char* tag = "td") {
  return fmt::format("<{0}>{1}</{0}>", tag, escape_html(text));
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    html += i == 0 ? "<thead><tr>" : "<tr>";
    for (const std::string& text : rows[i]) html += cell(text, i == 0 ? "th" : "td");
    html += i == 0 ? "</tr></thead><tbody>\n" : "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

/// `key` of every point of the curves of every run; policies none of whose runs `wanted` accepts
/// are left out, and the others keep their colours.
template <class Wanted>
std::vector<Series> curves(const Json& runs, const Policies& policies, const std::string& key,
                           Wanted wanted) {
  std::vector<Series> all;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const std::string& policy = policies[i];
    const bool is_wanted = std::any_of(runs.begin(), runs.end(), [&](const Json& run) {
      return run.at("policy") == policy && wanted(run);
    });
    if (!is_wanted) continue;
    Series series{.label = policy, .color = i, .lines = {}};
    for (const Json& run : runs) {
      if (run.at("policy") != policy) continue;
      std::vector<Point>& line = series.lines.emplace_back();
      for (const Json& point : run.at("curve")) {
        line.push_back({number_at(point, "step"), number_at(point, key)});
      }
    }
    all.push_back(std::move(series));
  }
  return all;
}

std::string draw_curves(const Json& runs, const Policies& policies) {
  const auto all = [](const Json&) { return true; };
  std::string html = draw(LineChart{.title = "Training loss, every seed",
                                    .x_label = "step",
                                    .y_label = "cross-entropy, nats",
                                    .series = curves(runs, policies, "loss", all)});
  std::vector<Series> accuracies = curves(runs, policies, "accuracy", all);
  for (Series& series : accuracies) {
    for (auto& line : series.lines) {
      for (Point& point : line) point.y *= 100;
    }
  }
  html += draw(LineChart{.title = "Training accuracy, every seed",
                         .x_label = "step",
                         .y_label = "accuracy, %",
                         .series = accuracies});
  // Policies without loss scaling have nothing to show in the next two.
  const auto scales = [](const Json& run) { return run.at("scales_loss").get<bool>(); };
  const std::vector<Series> loss_scales = curves(runs, policies, "loss_scale", scales);
  if (loss_scales.empty()) return html;
  html += draw(LineChart{.title = "Loss scale, every seed",
                         .x_label = "step",
                         .y_label = "scale",
                         .y_is_log2 = true,
                         .is_stepped = true,
                         .series = loss_scales});
  return html + draw(LineChart{.title = "Skipped steps so far, every seed",
                               .x_label = "step",
                               .y_label = "steps",
                               .is_stepped = true,
                               .starts_at_zero = true,
                               .series = curves(runs, policies, "skipped_steps", scales)});
}

std::string draw_throughput(const Json& runs, const Json& summary, const Policies& policies) {
  BarChart chart{.title = "Throughput: mean, and each seed as a dot",
                 .x_label = "images/s",
                 .digits = 0,
                 .series = policies};
  BarChart::Group& group = chart.groups.emplace_back();
  group.label = "training";
  for (const std::string& policy : policies) {
    group.values.push_back(number_at(summary.at(policy).at("images_per_second"), "mean"));
    std::vector<double>& samples = group.samples.emplace_back();
    for (const Json& run : runs) {
      if (run.at("policy") == policy) samples.push_back(number_at(run, "images_per_second"));
    }
  }
  return draw(chart);
}

std::string draw_memory(const Json& runs, const Policies& policies) {
  constexpr std::pair<const char*, const char*> kCategories[] = {
      {"activations", "activations"},
      {"weights", "weights"},
      {"compute_copies", "16-bit copies"},
      {"gradients", "gradients"},
      {"optimizer", "optimizer"},
      {"temporaries", "temporaries"},
      {"workspace", "workspace"},
      {"input_buffers", "input buffers"},
      {"total", "total"}};
  BarChart chart{.title = "Memory of one training step, planned",
                 .x_label = "MB (10^6 bytes)",
                 .digits = 2,
                 .series = policies};
  for (const auto& [key, label] : kCategories) {
    BarChart::Group& group = chart.groups.emplace_back();
    group.label = label;
    for (const std::string& policy : policies) {
      const auto run = std::find_if(runs.begin(), runs.end(),
                                    [&](const Json& r) { return r.at("policy") == policy; });
      group.values.push_back(number_at(run->at("planned_bytes"), key) / 1e6);
    }
  }
  return draw(chart);
}

std::string draw_timelines(const Json& plans, const Policies& policies) {
  constexpr std::pair<const char*, const char*> kLayers[] = {{"activations", "activations"},
                                                             {"gradients", "gradients"},
                                                             {"compute_copies", "16-bit copies"},
                                                             {"temporaries", "temporaries"}};
  std::vector<AreaChart> charts;
  double highest = 0;
  for (const std::string& policy : policies) {
    AreaChart chart{.title = "Live buffers during one step, " + policy,
                    .x_label = "kernel call: forward, backward, update",
                    .y_label = "MB (10^6 bytes)"};
    std::vector<double> sums(plans.at(policy).at("timeline").size(), 0);
    for (const auto& [key, label] : kLayers) {
      AreaChart::Layer layer{.label = label};
      for (const Json& moment : plans.at(policy).at("timeline")) {
        sums[layer.values.size()] += number_at(moment, key) / 1e6;
        layer.values.push_back(number_at(moment, key) / 1e6);
      }
      chart.layers.push_back(std::move(layer));
    }
    for (const double sum : sums) highest = std::max(highest, sum);
    charts.push_back(std::move(chart));
  }
  std::string html;
  for (AreaChart& chart : charts) {
    chart.y_max = highest;
    html += draw(chart);
  }
  return html;
}

std::string precision_section(const std::string& policy, const Json& precision) {
  std::vector<std::vector<std::string>> rows = {{"layer", "max |activation|", "overflow, %",
                                                 "flushed to 0, %", "max |gradient| × scale",
                                                 "overflow, %", "flushed to 0, %"}};
  for (const Json& layer : precision.at("layers")) {
    const std::string name = layer.at("layer");
    std::vector<std::string> row = {name.empty() ? "(losses)" : name};
    for (const char* kind : {"activation", "gradient"}) {
      const Json& range = layer.at(kind);
      row.push_back(fmt::format("{:.3g}", number_at(range, "max_abs")));
      row.push_back(fmt::format("{:.3g}", number_at(range, "overflowing") * 100));
      row.push_back(fmt::format("{:.3g}", number_at(range, "flushed") * 100));
    }
    rows.push_back(std::move(row));
  }
  std::string html =
      fmt::format("<h3>{}</h3>\n<p class=\"soft\">Loss scale {:g}, recommended {:g}.</p>\n{}<ul>\n",
                  escape_html(policy), number_at(precision, "loss_scale"),
                  number_at(precision, "recommended_scale"), table(rows));
  for (const Json& finding : precision.at("findings")) {
    html += "<li>" + escape_html(finding.get<std::string>()) + "</li>\n";
  }
  return html + "</ul>\n";
}

std::string calls_section(const std::string& policy, const Json& calls) {
  std::vector<std::vector<std::string>> rows = {{"op", "layer", "half", "kernel", "stored as"}};
  for (const Json& call : calls) {
    std::string outputs;
    for (const Json& type : call.at("outputs")) {
      outputs += (outputs.empty() ? "" : ", ") + type.get<std::string>();
    }
    const std::string op = call.at("op");
    rows.push_back({op.substr(0, op.find(" {")), call.at("layer"), call.at("phase"),
                    call.at("kernel"), outputs});
  }
  return fmt::format("<details><summary>{}: {} kernel calls</summary>\n{}</details>\n",
                     escape_html(policy), calls.size(), table(rows));
}

}  // namespace

std::string html_report(const Json& results, const Policies& policies) {
  const Json& runs = results.at("runs");
  const Json& summary = results.at("summary");
  const std::string title = results.at("title");
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      escape_html(title), kReportStyle);
  const Json& manifest = runs.at(0).at("manifest");
  const std::string revision = manifest.at("demi").at("git_revision");
  html += fmt::format("<p class=\"soft\">{}; demi {}{}</p>\n",
                      escape_html(manifest.at("device").value("description", "")),
                      manifest.at("demi").at("version").get<std::string>(),
                      revision.empty() ? "" : ", commit " + revision.substr(0, 12));
  html += "<h2>Results</h2>\n" + table(table_rows(summary, policies));
  html += "<h2>Training</h2>\n<div class=\"charts\">\n" + draw_curves(runs, policies) + "</div>\n";
  html += "<h2>Speed and memory</h2>\n<div class=\"charts\">\n" +
          draw_throughput(runs, summary, policies) + draw_memory(runs, policies) +
          draw_timelines(results.at("plans"), policies) + "</div>\n";
  html +=
      "<h2>Precision</h2>\n<p>What float32 computes, and what float16 makes of it: the share that "
      "overflows, and the share of what is not 0 that becomes 0. Under float32 the values are "
      "those "
      "that mixed_float16 would store in 16 bits.</p>\n";
  for (const std::string& policy : policies) {
    html += precision_section(policy, results.at("precision").at(policy));
  }
  html += "<h2>What runs</h2>\n";
  for (const std::string& policy : policies) {
    html += calls_section(policy, results.at("plans").at(policy).at("calls"));
  }
  html += "<h2>Manifest of the first run</h2>\n<details><summary>JSON</summary><pre>" +
          escape_html(manifest.dump(2)) + "</pre></details>\n";
  return html + "</body>\n</html>\n";
}

}  // namespace demi::benchmarks
