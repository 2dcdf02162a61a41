#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <demi/demi.h>

#include "tests/support/message_of.h"
#include "tests/support/small_models.h"

namespace demi {
namespace {

using testing::blobs;
using testing::classifier;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

std::vector<std::string> stages(const std::vector<MemoryRecord>& records) {
  std::vector<std::string> names;
  for (const MemoryRecord& record : records) names.push_back(record.stage);
  return names;
}

TEST(MemoryUsage, LooksAtTheStagesAndAgreesWithThePlan) {
  const std::string file = ::testing::TempDir() + "memory_usage_test.csv";
  std::vector<std::string> seen;
  const auto usage = std::make_shared<MemoryUsage>(
      MemoryUsageOptions{.filename = file,
                         .every_batches = 3,
                         .verbose = false,
                         .on_record = [&](const MemoryRecord& r) { seen.push_back(r.stage); }});
  Model model = classifier();
  model.compile({.loss = "sparse_categorical_crossentropy", .device = "cpu"});
  (void)model.fit(blobs(64), {.batch_size = 16,
                              .epochs = 2,
                              .validation_data = blobs(16),
                              .callbacks = {usage},
                              .verbose = 0});
  EXPECT_THAT(stages(usage->records()), ElementsAre("compiled", "first step", "batch", "evaluated",
                                                    "epoch", "batch", "evaluated", "epoch", "end"));
  EXPECT_EQ(seen, stages(usage->records()));
  const MemoryRecord& last = usage->records().back();
  EXPECT_EQ(last.step, 8);
  EXPECT_EQ(last.epoch, 1);
  EXPECT_EQ(last.stats.in_use, last.stats.planned);
  EXPECT_EQ(last.stats.arena_peak, last.stats.arena_planned);
  EXPECT_GE(last.stats.process, last.stats.reserved);
  EXPECT_EQ(last.scalars().at("memory/in_use"), static_cast<double>(last.stats.in_use));

  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);
  EXPECT_THAT(line, HasSubstr("stage,epoch,step,planned,in_use"));
  int count = 0;
  while (std::getline(lines, line)) ++count;
  EXPECT_EQ(count, 9);
  std::filesystem::remove(file);
}

TEST(MemoryUsage, OfAnEvaluation) {
  const auto usage = std::make_shared<MemoryUsage>(MemoryUsageOptions{.verbose = false});
  Model model = classifier();
  model.compile({.loss = "sparse_categorical_crossentropy", .device = "cpu"});
  (void)model.evaluate(blobs(16), {.callbacks = {usage}, .verbose = 0});
  EXPECT_THAT(stages(usage->records()), ElementsAre("evaluated"));
}

TEST(MemoryUsage, SaysWhichFileCannotBeWritten) {
  EXPECT_THROW(MemoryUsage({.every_batches = -1}), std::invalid_argument);
  Model model = classifier();
  model.compile({.loss = "sparse_categorical_crossentropy", .device = "cpu"});
  const MemoryUsage usage({.filename = "/nowhere/memory.csv", .verbose = false});
  EXPECT_THAT(message_of<std::runtime_error>(
                  [&] { (void)model.fit(blobs(16), {.callbacks = {usage}, .verbose = 0}); }),
              HasSubstr("cannot open /nowhere/memory.csv"));
}

TEST(MemoryStats, ReconcileLineByLine) {
  Model model = classifier();
  model.compile({.loss = "sparse_categorical_crossentropy", .device = "cpu"});
  (void)model.fit(blobs(16), {.verbose = 0});
  const memory::Stats stats = memory::stats("cpu");
  EXPECT_LE(stats.in_use, stats.reserved);
  EXPECT_LE(stats.reserved, stats.process);
  EXPECT_LE(stats.process, stats.device_used);
  EXPECT_EQ(stats.device_used + stats.device_free, stats.device_total);
  const std::string text = to_string(stats);
  for (const char* label :
       {"planned by compiled steps", "in use by models", "arena that kernels were given",
        "reserved by demi", "process", "device, free", "device, total", "= in use + "}) {
    EXPECT_THAT(text, HasSubstr(label));
  }
  EXPECT_THROW((void)memory::stats("abacus"), std::invalid_argument);
}

}  // namespace
}  // namespace demi
