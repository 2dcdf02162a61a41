// Charts as SVG for a page: axes with units, direct labels, colours and fonts from the page's
// style.
//
// All are drawn 360 units wide, so that at the width of a phone a unit is about a pixel. Series
// have the classes s0, s1, … and areas a0, a1, …, which the style colours.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace demi::benchmarks {

struct Point {
  double x = 0;
  double y = 0;  ///< NaN: a gap
};

/// Lines of one colour and one label: the runs of a policy.
struct Series {
  std::string label = {};
  std::size_t color = 0;  ///< the number in its classes
  std::vector<std::vector<Point>> lines = {};
};

struct LineChart {
  std::string title = {};  ///< also its description for who cannot see it
  std::string x_label = {};
  std::string y_label = {};     ///< with the unit
  bool y_is_log2 = false;       ///< ticks at powers of two
  bool is_stepped = false;      ///< values hold until the next point
  bool starts_at_zero = false;  ///< the y axis
  std::vector<Series> series = {};
};
[[nodiscard]] std::string draw(const LineChart& chart);

/// Horizontal bars, in groups of one per series.
struct BarChart {
  struct Group {
    std::string label = {};
    std::vector<double> values = {};                ///< one for each series
    std::vector<std::vector<double>> samples = {};  ///< for each series single values, as dots
  };
  std::string title = {};
  std::string x_label = {};  ///< with the unit
  int digits = 1;            ///< after the point, in the labels at the bars
  std::vector<std::string> series = {};
  std::vector<Group> groups = {};
};
[[nodiscard]] std::string draw(const BarChart& chart);

/// Layers on top of each other over the places 0, 1, …
struct AreaChart {
  struct Layer {
    std::string label = {};
    std::vector<double> values = {};
  };
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  double y_max = 0;  ///< end of the y axis, so that several charts can have the same; 0: the data's
  std::vector<Layer> layers = {};  ///< the lowest first
};
[[nodiscard]] std::string draw(const AreaChart& chart);

/// `text` with what HTML gives a meaning replaced.
[[nodiscard]] std::string escape_html(const std::string& text);

/// Round numbers that divide [low, high] into about `count` parts.
[[nodiscard]] std::vector<double> ticks_between(double low, double high, int count);

}  // namespace demi::benchmarks
