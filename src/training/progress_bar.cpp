#include "src/training/progress_bar.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace demi::internal {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kPlainLineSeconds = 10;
constexpr int kMaxCells = 20;
constexpr int kMinCells = 5;

/// Columns of `text`: all of its UTF-8 characters are one column wide.
int columns(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// `text`, shortened to `width` columns.
std::string cut(const std::string& text, int width) {
  if (columns(text) <= width) return text;
  int seen = 0;
  std::size_t end = 0;
  while (end < text.size() && seen < width) {
    const bool starts_character = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (starts_character && ++seen == width) break;
    ++end;
  }
  return text.substr(0, end) + "…";
}

std::string format_value(double value) {
  const double magnitude = std::abs(value);
  if (value == 0 || (magnitude >= 1e-3 && magnitude < 1e6) || !std::isfinite(value)) {
    return fmt::format("{:.4f}", value);
  }
  return fmt::format("{:.4e}", value);
}

std::string format_step_time(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s/step", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms/step", seconds * 1e3);
  return fmt::format("{:.0f} us/step", seconds * 1e6);
}

}  // namespace

std::string format_duration(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  const auto whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

ProgressStyle style_of_stdout(int verbose) {
  ProgressStyle style;
  style.verbose = verbose;
  style.is_terminal = isatty(STDOUT_FILENO) == 1;
  winsize size{};
  if (style.is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = size.ws_col;
  }
  return style;
}

double ProgressBar::monotonic() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProgressBar::ProgressBar(std::ostream& out, ProgressStyle style, std::function<double()> clock)
    : out_(out), style_(style), clock_(std::move(clock)) {}

ProgressBar::~ProgressBar() {
  try {
    interrupt();
  } catch (const std::ios_base::failure&) {  // a stream set to throw; there is nobody to tell
  }
}

void ProgressBar::begin(const std::string& title, std::int64_t steps, std::int64_t first_step) {
  steps_ = steps;
  first_step_ = step_ = first_step;
  samples_ = 0;
  started_ = last_step_ = last_drawn_ = clock_();
  if (style_.verbose > 0 && !title.empty()) out_ << title << '\n' << std::flush;
}

bool ProgressBar::advance(std::int64_t samples) {
  ++step_;
  samples_ += samples;
  last_step_ = clock_();
  if (style_.verbose != 1 || step_ >= steps_) return false;
  return last_step_ - last_drawn_ >= (style_.is_terminal ? kRedrawSeconds : kPlainLineSeconds);
}

void ProgressBar::draw(const Logs& logs, const ProgressStatus& status) {
  last_drawn_ = last_step_;
  const std::string text = line(logs, status, /*is_last=*/false);
  if (style_.is_terminal) {
    replace_line(cut(text, style_.width - 1));
    line_is_open_ = true;
    out_ << std::flush;
  } else {
    out_ << text << '\n' << std::flush;
  }
}

void ProgressBar::end(const Logs& logs, const ProgressStatus& status) {
  if (style_.verbose == 0) return;
  replace_line(line(logs, status, /*is_last=*/true));
  line_is_open_ = false;
  out_ << '\n' << std::flush;
}

void ProgressBar::note(const std::string& text) {
  if (style_.verbose == 0) return;
  interrupt();
  out_ << text << '\n' << std::flush;
}

void ProgressBar::interrupt() {
  if (line_is_open_) out_ << '\n' << std::flush;
  line_is_open_ = false;
}

void ProgressBar::replace_line(const std::string& text) {
  // Return to column 0 and clear what is there.
  if (line_is_open_) out_ << "\r\x1b[K";
  out_ << text;
}

std::string ProgressBar::bar(int cells) const {
  const double done = steps_ > 0 ? static_cast<double>(step_) / static_cast<double>(steps_) : 1;
  const int full = std::clamp(static_cast<int>(done * cells), 0, cells);
  std::string text;
  for (int i = 0; i < cells; ++i) text += i < full ? "━" : "─";
  return text + " ";
}

std::string ProgressBar::line(const Logs& logs, const ProgressStatus& status, bool is_last) const {
  const double spent = last_step_ - started_;
  const auto done = static_cast<double>(step_ - first_step_);
  std::string text;
  if (is_last) {
    text = format_duration(clock_() - started_);
  } else {
    const auto left = static_cast<double>(steps_ - step_);
    text = "ETA " + format_duration(done > 0 ? spent / done * left : 0);
  }
  if (spent > 0 && samples_ > 0) {
    text += fmt::format(" - {:.0f} samples/s", static_cast<double>(samples_) / spent);
    if (is_last) text += " - " + format_step_time(spent / done);
  }
  for (const auto& [name, value] : logs) text += " - " + name + ": " + format_value(value);
  if (status.shows_loss_scale) text += fmt::format(" - loss_scale: {:g}", status.loss_scale);
  if (status.skipped_steps > 0) text += fmt::format(" - skipped: {}", status.skipped_steps);

  const std::string count = fmt::format("{}/{} ", step_, steps_);
  if (style_.verbose != 1 || !style_.is_terminal) return count + "- " + text;
  const int room = style_.width - 1 - columns(count) - columns(text) - 1;
  const int cells = is_last ? kMaxCells : std::min(room, kMaxCells);
  return count + (cells >= kMinCells ? bar(cells) : "") + text;
}

}  // namespace demi::internal
