// The charts of the report: round ticks, every value drawn, text that cannot break the page.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "benchmarks/compare_precision/report/chart.h"

namespace demi::benchmarks {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(Chart, PutsTicksAtRoundNumbers) {
  EXPECT_EQ(ticks_between(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks_between(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(ticks_between(3, 3, 4), (std::vector<double>{3}));
  EXPECT_EQ(ticks_between(0, INFINITY, 4).size(), 1u);
  for (const double high : {1e-9, 0.37, 12.0, 4567.0, 8e11}) {
    const std::size_t ticks = ticks_between(0, high, 4).size();
    EXPECT_GE(ticks, 3u) << high;
    EXPECT_LE(ticks, 8u) << high;
  }
}

TEST(Chart, DrawsALineForEachRunAndGapsWhereThereIsNoNumber) {
  const LineChart chart{.title = "Loss",
                        .x_label = "step",
                        .y_label = "nats",
                        .series = {{"a", 0, {{{1, 2}, {2, NAN}, {3, 1}}, {{1, 1}, {2, 1}}}},
                                   {"b & c", 1, {{{1, 3}}}}}};
  const std::string svg = draw(chart);
  EXPECT_EQ(count(svg, "class=\"line s0\""), 2u);
  EXPECT_EQ(count(svg, "class=\"line s1\""), 1u);
  EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">nats<"), std::string::npos);
  EXPECT_NE(svg.find("b &amp; c"), std::string::npos);
  const std::string first = svg.substr(svg.find("class=\"line s0\""));
  EXPECT_EQ(count(first.substr(0, first.find("/>")), "M"), 2u) << "a gap begins a new part";
}

TEST(Chart, DrawsNothingButAxesWithoutData) {
  EXPECT_NE(draw(LineChart{.title = "Empty"}).find("</svg>"), std::string::npos);
  EXPECT_NE(draw(BarChart{.title = "Empty"}).find("</svg>"), std::string::npos);
  EXPECT_NE(draw(AreaChart{.title = "Empty"}).find("</svg>"), std::string::npos);
}

TEST(Chart, LabelsPowersOfTwo) {
  const LineChart chart{.title = "Scale",
                        .y_is_log2 = true,
                        .is_stepped = true,
                        .series = {{"a", 0, {{{1, 32768}, {2, 16384}, {3, 4096}}}}}};
  const std::string svg = draw(chart);
  EXPECT_NE(svg.find("2<tspan dy=\"-4\" class=\"power\">15</tspan>"), std::string::npos) << svg;
}

TEST(Chart, BarsCarryTheirValues) {
  const std::string svg = draw(BarChart{
      .title = "Memory",
      .x_label = "MB",
      .digits = 2,
      .series = {"float32", "mixed_float16"},
      .groups = {{"weights", {0.9, 0.9}, {}}, {"activations", {4.955, 2.93}, {{4, 5}, {3}}}}});
  EXPECT_NE(svg.find(">2.93<"), std::string::npos);
  EXPECT_EQ(count(svg, "<circle"), 3u);
  EXPECT_EQ(count(svg, "<rect"), 6u) << "four bars and two swatches";
}

TEST(Chart, EscapesWhatHtmlGivesAMeaning) {
  EXPECT_EQ(escape_html("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
}

}  // namespace
}  // namespace demi::benchmarks
