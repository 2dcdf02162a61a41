// Event files: the bytes are those that TensorBoard's own package writes (golden/make_events.py),
// and files that are cut or damaged are told apart from complete ones.
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/io/event.pb.h"
#include "src/io/event_writer.h"
#include "tests/support/file_content.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"

namespace demi::io {
namespace {

namespace fs = std::filesystem;
using testing::content_of;
using testing::message_of;
using testing::TemporaryFolder;

events::GraphDef small_graph() {
  events::GraphDef graph;
  events::NodeDef& x = *graph.add_node();
  x.set_name("inputs/x");
  x.set_op("input");
  x.set_device("cpu");
  (*x.mutable_attr())["dtype"].set_type(events::DT_HALF);
  events::NodeDef& y = *graph.add_node();
  y.set_name("dense/matmul");
  y.set_op("matmul");
  y.set_device("cpu");
  y.add_input("inputs/x");
  y.add_input("inputs/x:1");
  events::Shape& shape = *(*y.mutable_attr())["_output_shapes"].mutable_list()->add_shape();
  shape.add_dim()->set_size(32);
  shape.add_dim()->set_size(10);
  (*y.mutable_attr())["kernel"].set_s("gemm");
  graph.mutable_versions()->set_producer(22);
  return graph;
}

/// The events of the golden file.
fs::path write_events(const fs::path& folder) {
  EventWriter writer(folder, [] { return 1700000000.25; });
  writer.scalar("loss", 7, 0.125);
  writer.histogram("weights/dense/kernel", 7,
                   {.min = -1,
                    .max = 2,
                    .count = 4,
                    .sum = 2.5,
                    .sum_of_squares = 6.25,
                    .limits = {-0.5, 1, 2},
                    .counts = {1, 2, 1}});
  writer.text("configuration", 0, "# mixed ½");
  writer.graph(small_graph());
  writer.session_start(
      "run",
      {{"learning_rate", 0.001}, {"shuffle", true}, {"policy", std::string("mixed_float16")}});
  writer.session_end(true);
  writer.flush();
  return writer.path();
}

std::vector<std::string> records_of(const fs::path& path) {
  RecordReader reader(path);
  std::vector<std::string> records;
  while (const auto record = reader.next()) records.push_back(*record);
  return records;
}

TEST(EventWriter, WritesTheBytesOfTensorBoardsOwnPackage) {
  const TemporaryFolder folder;
  const fs::path path = write_events(folder.path() / "new" / "run");
  EXPECT_TRUE(path.filename().string().starts_with("events.out.tfevents.1700000000."));
  EXPECT_EQ(content_of(path), content_of(testing::golden_path("events.tfevents")));
}

TEST(EventWriter, GivesEachWriterAFileOfItsOwn) {
  const TemporaryFolder folder;
  EXPECT_NE(write_events(folder.path()), write_events(folder.path()));
}

TEST(RecordReader, ReadsWhatWasWritten) {
  const std::vector<std::string> records = records_of(testing::golden_path("events.tfevents"));
  ASSERT_EQ(records.size(), 7u);
  events::Event event;
  ASSERT_TRUE(event.ParseFromString(records[0]));
  EXPECT_EQ(event.file_version(), "brain.Event:2");
  ASSERT_TRUE(event.ParseFromString(records[1]));
  EXPECT_EQ(event.step(), 7);
  EXPECT_EQ(event.summary().value(0).simple_value(), 0.125f);
}

TEST(RecordReader, SaysWhereATruncatedFileEnds) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "events";
  const std::string whole = content_of(testing::golden_path("events.tfevents"));
  // The first record takes 12 + 24 + 4 bytes, the second ends at 82.
  for (const std::size_t size : {41u, 51u, 52u, 60u, 81u}) {
    testing::put(path, whole.substr(0, size));
    const std::string message = message_of<std::invalid_argument>([&] { (void)records_of(path); });
    EXPECT_NE(message.find("expected complete records in '" + path.string()), std::string::npos)
        << message;
    EXPECT_NE(message.find("behind record 1, at byte 40."), std::string::npos) << message;
  }
  testing::put(path, whole.substr(0, 40));
  EXPECT_EQ(records_of(path).size(), 1u);
  testing::put(path, "");
  EXPECT_TRUE(records_of(path).empty());
}

TEST(RecordReader, NoticesEveryChangedByte) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "events";
  const std::string two_records = content_of(testing::golden_path("events.tfevents")).substr(0, 82);
  for (std::size_t i = 0; i < two_records.size(); ++i) {
    std::string damaged = two_records;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    testing::put(path, damaged);
    EXPECT_THROW((void)records_of(path), std::invalid_argument) << "byte " << i;
  }
}

TEST(EventWriter, SaysWhyItCannotWrite) {
  const std::string nowhere =
      message_of<std::runtime_error>([] { EventWriter writer("/proc/nowhere/logs"); });
  EXPECT_NE(nowhere.find("[events] could not make '/proc/nowhere/logs': "), std::string::npos)
      << nowhere;
  const TemporaryFolder folder;
  const fs::path file = testing::put(folder.path() / "file", "x");
  const std::string not_a_folder =
      message_of<std::runtime_error>([&] { EventWriter writer(file); });
  EXPECT_NE(not_a_folder.find(file.string()), std::string::npos) << not_a_folder;
}

TEST(RecordWriter, LeavesCompleteRecordsOnAFullDisk) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "records";
  RecordWriter writer(path);
  writer.add("first");
  writer.flush();
  {
    const testing::FileSizeLimit limit(64);
    writer.add(std::string(100, 'x'));
    const std::string message = message_of<std::runtime_error>([&] { writer.flush(); });
    EXPECT_NE(message.find("[records] could not write '" + path.string() + "': File too large"),
              std::string::npos)
        << message;
  }
  EXPECT_EQ(records_of(path), (std::vector<std::string>{"first"}));
  writer.add("second");
  writer.flush();
  EXPECT_EQ(records_of(path), (std::vector<std::string>{"first", "second"}));
}

}  // namespace
}  // namespace demi::io
