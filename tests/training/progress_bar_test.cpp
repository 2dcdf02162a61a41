#include "src/training/progress_bar.h"

#include <cmath>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace demi::internal {
namespace {

/// A bar on a string, with a clock that the test moves.
struct Screen {
  std::ostringstream out;
  double now = 100;
  ProgressBar bar;

  explicit Screen(ProgressStyle style) : bar(out, style, [this] { return now; }) {}

  /// What came since the last call.
  std::string text() {
    std::string result = out.str();
    out.str("");
    return result;
  }
};

Logs logs(double loss, double accuracy) {
  Logs result;
  result.set("loss", loss);
  result.set("accuracy", accuracy);
  return result;
}

TEST(ProgressBar, RedrawsOneLineOnATerminal) {
  Screen screen({.verbose = 1, .is_terminal = true, .width = 120});
  screen.bar.begin("Epoch 1/2", 4);
  EXPECT_EQ(screen.text(), "Epoch 1/2\n");

  screen.now += 0.5;
  ASSERT_TRUE(screen.bar.advance(32));
  screen.bar.draw(logs(0.69314, 0.5), {});
  EXPECT_EQ(screen.text(),
            "1/4 ━━━━━─────────────── ETA 1.5s - 64 samples/s - loss: 0.6931 - accuracy: 0.5000");

  screen.now += 0.05;
  EXPECT_FALSE(screen.bar.advance(32)) << "too early to redraw";
  screen.now += 0.45;
  ASSERT_TRUE(screen.bar.advance(32));
  screen.bar.draw(logs(0.25, 0.75),
                  {.shows_loss_scale = true, .loss_scale = 16384, .skipped_steps = 1});
  EXPECT_EQ(screen.text(),
            "\r\x1b[K3/4 ━━━━━━━━━━━━━━━───── ETA 0.3s - 96 samples/s - loss: 0.2500 - accuracy: "
            "0.7500 - loss_scale: 16384 - skipped: 1");

  screen.now += 0.5;
  EXPECT_FALSE(screen.bar.advance(8)) << "the last step is drawn by end()";
  screen.now += 1;  // validation
  screen.bar.end(logs(0.125, 1), {.shows_loss_scale = true, .loss_scale = 16384});
  EXPECT_EQ(screen.text(),
            "\r\x1b[K4/4 ━━━━━━━━━━━━━━━━━━━━ 2.5s - 69 samples/s - 375.0 ms/step - loss: 0.1250 - "
            "accuracy: 1.0000 - loss_scale: 16384\n");
}

TEST(ProgressBar, FitsTheTerminal) {
  for (const int width : {20, 40, 60, 70, 80, 200}) {
    Screen screen({.verbose = 1, .is_terminal = true, .width = width});
    screen.bar.begin("", 4);
    screen.now += 1;
    ASSERT_TRUE(screen.bar.advance(32));
    screen.bar.draw(logs(0.5, 0.5), {});
    const std::string text = screen.text();
    int columns = 0;
    for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    EXPECT_LT(columns, width) << text;
    EXPECT_EQ(text.find("━") != std::string::npos, width >= 70) << text;
    EXPECT_EQ(text.find("…") != std::string::npos, width <= 60) << text;
  }
}

TEST(ProgressBar, PrintsPlainLinesElsewhere) {
  Screen screen({.verbose = 1, .is_terminal = false});
  screen.bar.begin("Epoch 2/2", 3);
  screen.now += 1;
  EXPECT_FALSE(screen.bar.advance(32));
  screen.now += 20;
  ASSERT_TRUE(screen.bar.advance(32));
  screen.bar.draw(logs(0.5, 0.5), {});
  screen.now += 3;
  EXPECT_FALSE(screen.bar.advance(32));
  screen.bar.end(logs(2e-5, std::nan("")), {});
  EXPECT_EQ(screen.text(),
            "Epoch 2/2\n"
            "2/3 - ETA 11s - 3 samples/s - loss: 0.5000 - accuracy: 0.5000\n"
            "3/3 - 24s - 4 samples/s - 8.00 s/step - loss: 2.0000e-05 - accuracy: nan\n");
}

TEST(ProgressBar, PrintsOneLinePerEpochWithVerbose2) {
  Screen screen({.verbose = 2, .is_terminal = true});
  screen.bar.begin("Epoch 1/1", 2);
  screen.now += 60;
  EXPECT_FALSE(screen.bar.advance(10));
  screen.now += 60;
  EXPECT_FALSE(screen.bar.advance(10));
  screen.bar.end(logs(1, 0), {});
  EXPECT_EQ(screen.text(),
            "Epoch 1/1\n2/2 - 2m00s - 0 samples/s - 60.00 s/step - loss: 1.0000 - accuracy: "
            "0.0000\n");
}

TEST(ProgressBar, IsSilentWithVerbose0) {
  Screen screen({.verbose = 0, .is_terminal = true});
  screen.bar.begin("Epoch 1/1", 1);
  screen.now += 60;
  EXPECT_FALSE(screen.bar.advance(10));
  screen.bar.end(logs(1, 0), {});
  EXPECT_EQ(screen.text(), "");
}

TEST(ProgressBar, CountsTheRateOfAResumedEpochFromWhereItBegan) {
  Screen screen({.verbose = 2});
  screen.bar.begin("", 10, 8);
  screen.now += 1;
  EXPECT_FALSE(screen.bar.advance(10));
  screen.now += 1;
  EXPECT_FALSE(screen.bar.advance(10));
  screen.bar.end({}, {});
  EXPECT_EQ(screen.text(), "10/10 - 2.0s - 10 samples/s - 1.00 s/step\n");
}

TEST(ProgressBar, HandlesNoSteps) {
  Screen screen({.verbose = 1, .is_terminal = true});
  screen.bar.begin("", 0);
  screen.bar.end({}, {});
  EXPECT_EQ(screen.text(), "0/0 ━━━━━━━━━━━━━━━━━━━━ 0.0s\n");
}

TEST(ProgressBar, LeavesAHalfDrawnLine) {
  Screen screen({.verbose = 1, .is_terminal = true});
  screen.bar.begin("", 3);
  screen.now += 1;
  ASSERT_TRUE(screen.bar.advance(1));
  screen.bar.draw({}, {});
  (void)screen.text();
  screen.bar.interrupt();
  screen.bar.interrupt();
  EXPECT_EQ(screen.text(), "\n");
}

TEST(ProgressBar, FormatsDurations) {
  EXPECT_EQ(format_duration(0.04), "0.0s");
  EXPECT_EQ(format_duration(9.96), "10s");
  EXPECT_EQ(format_duration(59.4), "59s");
  EXPECT_EQ(format_duration(59.6), "1m00s");
  EXPECT_EQ(format_duration(3599.7), "1h00m");
  EXPECT_EQ(format_duration(7800), "2h10m");
}

}  // namespace
}  // namespace demi::internal
