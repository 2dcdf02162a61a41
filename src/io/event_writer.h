// EventWriter: event files of TensorBoard. event.proto is their format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/io/record_file.h"

namespace demi::events {
class Event;
class GraphDef;
}  // namespace demi::events

namespace demi::io {

/// How many values fall between limits: counts[i] of them in (limits[i - 1], limits[i]].
struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<double> limits;
  std::vector<double> counts;
};

/// The name and value of a hyper-parameter.
using HyperParameter = std::pair<std::string, std::variant<double, bool, std::string>>;

/// Writes one event file. Nothing reaches the file before flush().
class EventWriter {
 public:
  /// Seconds since 1970.
  using Clock = std::function<double()>;

  /// Makes `folder`, where it is not there, and in it a new file
  /// "events.out.tfevents.<seconds>.<host>.<process>.<count>". Throws std::runtime_error with the
  /// path and the system's reason.
  explicit EventWriter(const std::filesystem::path& folder, Clock clock = wall_clock);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void scalar(const std::string& tag, std::int64_t step, double value);
  void histogram(const std::string& tag, std::int64_t step, const Histogram& histogram);
  /// `markdown` for the Text tab.
  void text(const std::string& tag, std::int64_t step, const std::string& markdown);
  void graph(const events::GraphDef& graph);
  /// The beginning and the end of a session of the HParams tab, which are `name` of a group.
  void session_start(const std::string& name, const std::vector<HyperParameter>& parameters);
  void session_end(bool succeeded);

  /// Throws std::runtime_error with the path and the system's reason; what was added since the last
  /// flush is then lost, and what the file held before still stands.
  void flush() { records_.flush(); }

  [[nodiscard]] const std::filesystem::path& path() const { return records_.path(); }

  [[nodiscard]] static double wall_clock();

 private:
  void add(events::Event& event);

  Clock clock_;
  RecordWriter records_;
};

}  // namespace demi::io
