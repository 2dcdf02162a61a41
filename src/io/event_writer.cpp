#include "src/io/event_writer.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "src/io/event.pb.h"

namespace demi::io {
namespace {

using events::Event;

/// A name that no other writer, in this process or another, uses; TensorBoard knows event files by
/// the middle part.
std::filesystem::path new_file(const std::filesystem::path& folder, double seconds) {
  static std::atomic<unsigned> counter{0};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw std::runtime_error(
        fmt::format("[events] could not make '{}': {}.", folder.string(), error.message()));
  }
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {"localhost"};
  return folder / fmt::format("events.out.tfevents.{:.0f}.{}.{}.{}", seconds, host.data(), getpid(),
                              counter++);
}

/// The same bytes for the same message, also where it holds a map.
template <class Message>
std::string bytes_of(const Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

events::Summary::Value& add_value(Event& event, const std::string& tag) {
  events::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  return value;
}

void set_plugin(events::Summary::Value& value, const char* plugin) {
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
}

Event hparams_event(const char* tag, const events::HParams& content) {
  Event event;
  events::Summary::Value& value = add_value(event, tag);
  set_plugin(value, "hparams");
  value.mutable_metadata()->mutable_plugin_data()->set_content(bytes_of(content));
  return event;
}

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& folder, Clock clock)
    : clock_(std::move(clock)), records_(new_file(folder, clock_())) {
  Event event;
  event.set_file_version("brain.Event:2");
  add(event);
}

EventWriter::~EventWriter() = default;

double EventWriter::wall_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void EventWriter::add(Event& event) {
  event.set_wall_time(clock_());
  records_.add(bytes_of(event));
}

void EventWriter::scalar(const std::string& tag, std::int64_t step, double value) {
  Event event;
  event.set_step(step);
  add_value(event, tag).set_simple_value(static_cast<float>(value));
  add(event);
}

void EventWriter::histogram(const std::string& tag, std::int64_t step, const Histogram& histogram) {
  Event event;
  event.set_step(step);
  events::Histogram& written = *add_value(event, tag).mutable_histogram();
  written.set_min(histogram.min);
  written.set_max(histogram.max);
  written.set_count(histogram.count);
  written.set_sum(histogram.sum);
  written.set_sum_of_squares(histogram.sum_of_squares);
  written.mutable_bucket_limit()->Assign(histogram.limits.begin(), histogram.limits.end());
  written.mutable_bucket()->Assign(histogram.counts.begin(), histogram.counts.end());
  add(event);
}

void EventWriter::text(const std::string& tag, std::int64_t step, const std::string& markdown) {
  Event event;
  event.set_step(step);
  events::Summary::Value& value = add_value(event, tag);
  set_plugin(value, "text");
  value.mutable_tensor()->set_dtype(events::DT_STRING);
  value.mutable_tensor()->mutable_shape()->add_dim()->set_size(1);
  value.mutable_tensor()->add_string_val(markdown);
  add(event);
}

void EventWriter::graph(const events::GraphDef& graph) {
  Event event;
  event.set_graph_def(bytes_of(graph));
  add(event);
}

void EventWriter::session_start(const std::string& name,
                                const std::vector<HyperParameter>& parameters) {
  events::HParams content;
  events::SessionStart& start = *content.mutable_session_start();
  start.set_group_name(name);
  start.set_start_time(clock_());
  for (const auto& [key, value] : parameters) {
    events::PlainValue& plain = (*start.mutable_hparams())[key];
    if (const double* number = std::get_if<double>(&value)) plain.set_number_value(*number);
    if (const bool* flag = std::get_if<bool>(&value)) plain.set_bool_value(*flag);
    if (const auto* text = std::get_if<std::string>(&value)) plain.set_string_value(*text);
  }
  Event event = hparams_event("_hparams_/session_start_info", content);
  add(event);
}

void EventWriter::session_end(bool succeeded) {
  events::HParams content;
  content.mutable_session_end()->set_status(succeeded ? events::SessionEnd::SUCCESS
                                                      : events::SessionEnd::FAILURE);
  content.mutable_session_end()->set_end_time(clock_());
  Event event = hparams_event("_hparams_/session_end_info", content);
  add(event);
}

}  // namespace demi::io
