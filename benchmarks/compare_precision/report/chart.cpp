#include "benchmarks/compare_precision/report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace demi::benchmarks {
namespace {

constexpr double kWidth = 360;
constexpr double kHeight = 220;
constexpr double kLeft = 48;
constexpr double kRight = 12;
constexpr double kTop = 26;
constexpr double kBottom = 38;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Something to draw an axis for, whatever was included.
  [[nodiscard]] Range widened() const {
    if (low > high) return {0, 1};
    if (low < high) return *this;
    if (low == 0) return {0, 1};
    const double margin = std::abs(low) * 0.1;
    return {low - margin, high + margin};
  }
};

/// From data to places in the drawing.
struct Scale {
  Range data;
  double from = 0;
  double to = 0;

  [[nodiscard]] double operator()(double value) const {
    return from + (value - data.low) / (data.high - data.low) * (to - from);
  }
};

std::string number(double value) {
  const double size = std::abs(value);
  if (size >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.3g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

std::string open_svg(const std::string& title, double height) {
  return fmt::format(
      "<figure><svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\">\n"
      "<text class=\"title\" x=\"0\" y=\"12\">{}</text>\n",
      kWidth, height, escape_html(title), escape_html(title));
}

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const std::string& classes = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n",
                     x, y, anchor, classes, escape_html(text));
}

std::string x_axis(const Scale& x, double bottom, const std::string& label) {
  std::string svg;
  for (const double tick : ticks_between(x.data.low, x.data.high, 4)) {
    svg += text_at(x(tick), bottom + 13, "middle", number(tick), "tick");
  }
  return svg + text_at((x.from + x.to) / 2, bottom + 29, "middle", label, "axis");
}

std::string y_axis(const Scale& y, bool is_log2, const std::string& label) {
  std::string svg;
  std::vector<double> ticks = ticks_between(y.data.low, y.data.high, 4);
  if (is_log2) std::erase_if(ticks, [](double tick) { return tick != std::floor(tick); });
  for (const double tick : ticks) {
    svg +=
        fmt::format("<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>\n",
                    kLeft, kWidth - kRight, y(tick));
    // 2 to the tick, its exponent raised.
    const std::string name =
        is_log2 ? fmt::format("2<tspan dy=\"-4\" class=\"power\">{:.0f}</tspan>", tick)
                : number(tick);
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\" class=\"tick\">{}</text>\n",
                       kLeft - 5, y(tick) + 3.5, name);
  }
  const double middle = (y.from + y.to) / 2;
  return svg + fmt::format(
                   "<text class=\"axis\" text-anchor=\"middle\" "
                   "transform=\"translate(10 {:.1f}) rotate(-90)\">{}</text>\n",
                   middle, escape_html(label));
}

/// A row of swatches and names below the title.
std::string legend(const std::vector<std::pair<std::string, std::size_t>>& entries,
                   const char* prefix, double y) {
  std::string svg;
  double x = 0;
  for (const auto& [label, color] : entries) {
    svg += fmt::format(
        "<rect class=\"{}{} swatch\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"9\" height=\"9\"/>\n",
        prefix, color, x, y - 8);
    svg += text_at(x + 13, y, "start", label, "legend");
    x += 26 + 5.6 * static_cast<double>(label.size());
  }
  return svg;
}

double transformed(const LineChart& chart, double y) {
  return chart.y_is_log2 ? std::log2(y) : y;
}

std::string path_of(const LineChart& chart, const std::vector<Point>& line, const Scale& x,
                    const Scale& y) {
  std::string path;
  bool is_open = false;
  for (const Point& point : line) {
    const double value = transformed(chart, point.y);
    if (!std::isfinite(value)) {
      is_open = false;
      continue;
    }
    if (is_open && chart.is_stepped) path += fmt::format("H{:.1f}", x(point.x));
    path += fmt::format("{}{:.1f} {:.1f}", is_open ? 'L' : 'M', x(point.x), y(value));
    is_open = true;
  }
  return path;
}

double top_of_axis(double high) {
  const std::vector<double> ticks = ticks_between(0, high, 4);
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : high;
  return step > 0 ? std::ceil(high / step) * step : 1;
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::vector<double> ticks_between(double low, double high, int count) {
  const double rough = (high - low) / count;
  if (!(rough > 0) || !std::isfinite(rough)) return {low};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (step < rough * 0.8) step = factor * power;
  }
  std::vector<double> ticks;
  for (double i = std::ceil(low / step); i * step <= high + step * 1e-9; ++i) {
    ticks.push_back(i * step);
  }
  return ticks;
}

std::string draw(const LineChart& chart) {
  Range xs;
  Range ys;
  if (chart.starts_at_zero) ys.include(0);
  for (const Series& series : chart.series) {
    for (const std::vector<Point>& line : series.lines) {
      for (const Point& point : line) {
        xs.include(point.x);
        ys.include(transformed(chart, point.y));
      }
    }
  }
  const double height = kHeight + 14;
  const Scale x{xs.widened(), kLeft, kWidth - kRight};
  const Scale y{ys.widened(), height - kBottom, kTop + 14};
  std::vector<std::pair<std::string, std::size_t>> labels;
  for (const Series& series : chart.series) labels.emplace_back(series.label, series.color);
  std::string svg = open_svg(chart.title, height) + legend(labels, "a", 28) +
                    y_axis(y, chart.y_is_log2, chart.y_label) +
                    x_axis(x, height - kBottom, chart.x_label);
  for (const Series& series : chart.series) {
    for (const std::vector<Point>& line : series.lines) {
      svg += fmt::format("<path class=\"line s{}\" d=\"{}\"/>\n", series.color,
                         path_of(chart, line, x, y));
    }
  }
  return svg + "</svg></figure>\n";
}

std::string draw(const BarChart& chart) {
  constexpr double kBar = 12;
  constexpr double kNames = 96;
  constexpr double kValues = 52;
  const auto bars = static_cast<double>(chart.series.size());
  const double group_height = bars * kBar + 8;
  const double height = 38 + group_height * static_cast<double>(chart.groups.size()) + 18;
  Range xs{.low = 0, .high = 0};
  for (const BarChart::Group& group : chart.groups) {
    for (const double value : group.values) xs.include(value);
    for (const auto& samples : group.samples) {
      for (const double value : samples) xs.include(value);
    }
  }
  const Scale x{xs.widened(), kNames, kWidth - kValues};
  std::vector<std::pair<std::string, std::size_t>> labels;
  for (const std::string& series : chart.series) labels.emplace_back(series, labels.size());
  std::string svg = open_svg(chart.title, height) + legend(labels, "a", 28);
  double y = 38;
  for (const BarChart::Group& group : chart.groups) {
    svg += text_at(kNames - 6, y + bars * kBar / 2 + 3.5, "end", group.label, "tick");
    for (std::size_t i = 0; i < group.values.size(); ++i) {
      const double value = group.values[i];
      const double top = y + static_cast<double>(i) * kBar;
      svg += fmt::format(
          "<rect class=\"a{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", i,
          x(0), top, std::max(0.0, x(value) - x(0)), kBar - 2);
      double end = x(value);
      if (i < group.samples.size()) {
        for (const double sample : group.samples[i]) {
          svg += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"1.8\"/>\n",
                             x(sample), top + (kBar - 2) / 2);
          end = std::max(end, x(sample) + 2);
        }
      }
      svg += text_at(end + 4, top + kBar - 3.5, "start",
                     fmt::format("{:.{}f}", value, chart.digits), "value");
    }
    y += group_height;
  }
  return svg + text_at((x.from + x.to) / 2, height - 4, "middle", chart.x_label, "axis") +
         "</svg></figure>\n";
}

std::string draw(const AreaChart& chart) {
  std::size_t places = 0;
  for (const AreaChart::Layer& layer : chart.layers) {
    places = std::max(places, layer.values.size());
  }
  std::vector<double> floor(places, 0);
  std::vector<std::vector<double>> tops;
  for (const AreaChart::Layer& layer : chart.layers) {
    std::vector<double> top = floor;
    for (std::size_t i = 0; i < layer.values.size(); ++i) top[i] += layer.values[i];
    floor = top;
    tops.push_back(std::move(top));
  }
  const double highest = floor.empty() ? 0 : *std::max_element(floor.begin(), floor.end());
  const double high = top_of_axis(chart.y_max > 0 ? chart.y_max : highest);
  const double height = kHeight + 14;
  const Scale x{Range{0, static_cast<double>(std::max<std::size_t>(places, 1))}, kLeft,
                kWidth - kRight};
  const Scale y{Range{0, high}.widened(), height - kBottom, kTop + 14};
  std::vector<std::pair<std::string, std::size_t>> labels;
  for (const AreaChart::Layer& layer : chart.layers)
    labels.emplace_back(layer.label, labels.size());
  std::string svg = open_svg(chart.title, height) + legend(labels, "b", 28) +
                    y_axis(y, false, chart.y_label) + x_axis(x, height - kBottom, chart.x_label);
  for (std::size_t i = 0; i < tops.size(); ++i) {
    std::string there = fmt::format("M{:.1f} {:.1f}", x(0), y(0));
    std::string back;
    for (std::size_t j = 0; j < places; ++j) {
      const auto place = static_cast<double>(j);
      there += fmt::format("L{:.1f} {:.1f}H{:.1f}", x(place), y(tops[i][j]), x(place + 1));
      const double below = i == 0 ? 0 : tops[i - 1][j];
      back = fmt::format("L{:.1f} {:.1f}H{:.1f}", x(place + 1), y(below), x(place)) + back;
    }
    svg += fmt::format("<path class=\"area b{}\" d=\"{}{}Z\"/>\n", i, there, back);
  }
  return svg + "</svg></figure>\n";
}

}  // namespace demi::benchmarks
