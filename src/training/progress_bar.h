// ProgressBar: what fit, evaluate and predict print.
//
// On a terminal one line is redrawn in place:
//   120/469 ━━━━━─────────────── ETA 2.1s - 18234 samples/s - loss: 0.6931 - accuracy: 0.7512
// Elsewhere, and with verbose 2, each epoch is one plain line.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include <demi/callbacks.h>

namespace demi::internal {

struct ProgressStyle {
  /// 0: nothing. 1: the bar, or on something that is not a terminal plain lines, in epochs longer
  /// than ten seconds also on the way. 2: one line for each epoch.
  int verbose = 1;
  bool is_terminal = false;
  int width = 80;  ///< columns of the terminal
};

/// The style for standard output as it is now.
[[nodiscard]] ProgressStyle style_of_stdout(int verbose);

/// Shown behind the logs.
struct ProgressStatus {
  bool shows_loss_scale = false;
  double loss_scale = 1;
  std::int64_t skipped_steps = 0;
};

class ProgressBar {
 public:
  /// `clock` gives seconds. `out` must outlive the bar.
  ProgressBar(std::ostream& out, ProgressStyle style, std::function<double()> clock = monotonic);
  /// Leaves a half-drawn line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `title` is a line of its own, "Epoch 1/5"; empty: none. `first_step`, if an epoch is resumed.
  void begin(const std::string& title, std::int64_t steps, std::int64_t first_step = 0);
  /// Counts a finished step of `samples` samples. Returns whether it is time to call `draw`, so
  /// that nobody reads logs from a device for a line that is not drawn.
  [[nodiscard]] bool advance(std::int64_t samples);
  void draw(const Logs& logs, const ProgressStatus& status);
  /// The last line of the epoch, with the total time; rates are those of the steps alone.
  void end(const Logs& logs, const ProgressStatus& status);
  /// A line of its own between those of the bar.
  void note(const std::string& text);
  /// Leaves a half-drawn line, so that other text may be printed.
  void interrupt();

  [[nodiscard]] static double monotonic();

 private:
  [[nodiscard]] std::string line(const Logs& logs, const ProgressStatus& status,
                                 bool is_last) const;
  [[nodiscard]] std::string bar(int cells) const;
  void replace_line(const std::string& text);

  std::ostream& out_;
  ProgressStyle style_;
  std::function<double()> clock_;
  std::int64_t steps_ = 0;
  std::int64_t first_step_ = 0;
  std::int64_t step_ = 0;
  std::int64_t samples_ = 0;
  double started_ = 0;
  double last_step_ = 0;
  double last_drawn_ = 0;
  bool line_is_open_ = false;
};

/// "0.4s", "12s", "3m05s", "2h10m".
[[nodiscard]] std::string format_duration(double seconds);

}  // namespace demi::internal
