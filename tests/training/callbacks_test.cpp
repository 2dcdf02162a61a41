#include <demi/callbacks.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/paths.h"

namespace demi {
namespace {

using testing::message_of;

Logs logs_of(std::vector<Logs::Entry> entries) {
  Logs logs;
  for (const auto& [name, value] : entries) logs.set(name, value);
  return logs;
}

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Logs, KeepsTheOrderAndOverwrites) {
  Logs logs = logs_of({{"loss", 1}, {"accuracy", 0.5}});
  logs.set("loss", 2);
  EXPECT_EQ(logs.begin()->first, "loss");
  EXPECT_EQ(logs.at("loss"), 2);
  EXPECT_EQ(logs.size(), 2u);
  EXPECT_EQ(logs.find("mae"), nullptr);
  EXPECT_EQ(message_of<std::invalid_argument>([&] { (void)logs.at("mae"); }),
            "[logs] expected one of the logged values 'loss', 'accuracy'. Received: 'mae'.");
}

TEST(BatchLogs, ReadsOnceAndOnlyWhenAsked) {
  int reads = 0;
  const BatchLogs logs([&] {
    ++reads;
    return logs_of({{"loss", 3}});
  });
  EXPECT_EQ(reads, 0);
  EXPECT_EQ(logs.values().at("loss"), 3);
  EXPECT_EQ(logs.values().at("loss"), 3);
  EXPECT_EQ(reads, 1);
}

/// Writes down what it is told.
class Recorder : public Callback {
 public:
  Recorder(std::string name, std::vector<std::string>* record)
      : name_(std::move(name)), record_(record) {}
  void on_train_begin() override { note("train_begin"); }
  void on_train_end(const Logs&) override { note("train_end"); }
  void on_epoch_begin(int epoch) override { note("epoch_begin " + std::to_string(epoch)); }
  void on_epoch_end(int epoch, Logs&) override { note("epoch_end " + std::to_string(epoch)); }
  void on_step_skipped(std::int64_t step, double) override {
    note("skipped " + std::to_string(step));
    stop_training();
  }
  bool on_non_finite_loss(std::int64_t) override {
    note("non_finite");
    return name_ == "a";
  }

 private:
  void note(const std::string& text) { record_->push_back(name_ + ": " + text); }
  std::string name_;
  std::vector<std::string>* record_;
};

TEST(CallbackList, CallsInOrderAndSharesTheControl) {
  std::vector<std::string> record;
  TrainingControl control;
  const CallbackList list({Recorder("a", &record), Recorder("b", &record)}, &control);
  list.train_begin();
  list.epoch_begin(4);
  EXPECT_FALSE(control.stop);
  list.step_skipped(17, 0.5);
  EXPECT_TRUE(control.stop);
  EXPECT_TRUE(list.non_finite_loss(18));
  EXPECT_EQ(record, (std::vector<std::string>{
                        "a: train_begin", "b: train_begin", "a: epoch_begin 4", "b: epoch_begin 4",
                        "a: skipped 17", "b: skipped 17", "a: non_finite", "b: non_finite"}));
}

TEST(CallbackList, RefusesNullAndForgetsTheControlAtItsEnd) {
  TrainingControl control;
  EXPECT_THROW(CallbackList({CallbackHandle(std::shared_ptr<Callback>())}, &control),
               std::invalid_argument);
  std::vector<std::string> record;
  const auto callback = std::make_shared<Recorder>("a", &record);
  { const CallbackList list({callback}, &control); }
  EXPECT_THROW(callback->on_step_skipped(0, 1), std::invalid_argument);
}

TEST(History, FillsGapsWithNaN) {
  History history;
  history.add(0, logs_of({{"loss", 3}}));
  history.add(1, logs_of({{"loss", 2}, {"val_loss", 5}}));
  history.add(2, logs_of({{"val_loss", 4}}));
  EXPECT_EQ(history.epoch, (std::vector<int>{0, 1, 2}));
  ASSERT_EQ(history.history["loss"].size(), 3u);
  EXPECT_EQ(history.history["loss"][1], 2);
  EXPECT_TRUE(std::isnan(history.history["loss"][2]));
  EXPECT_TRUE(std::isnan(history.history["val_loss"][0]));
  EXPECT_EQ(history.last("val_loss"), 4);
  EXPECT_THROW((void)history.last("accuracy"), std::invalid_argument);
}

TEST(LambdaCallback, CallsOnlyWhatIsGiven) {
  int epochs = 0;
  LambdaCallback callback({.on_epoch_end = [&](int, Logs& logs) {
    ++epochs;
    logs.set("extra", 1);
  }});
  Logs logs;
  callback.on_train_begin();
  callback.on_epoch_begin(0);
  callback.on_epoch_end(0, logs);
  callback.on_train_end(logs);
  EXPECT_EQ(epochs, 1);
  EXPECT_EQ(logs.at("extra"), 1);
}

TEST(CSVLogger, WritesAHeaderAndALinePerEpoch) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "log.csv";
  CSVLogger logger({.filename = path});
  logger.on_train_begin();
  Logs first = logs_of({{"loss", 0.5}, {"accuracy", 0.25}});
  Logs second = logs_of({{"loss", 0.1}, {"other", 1}});
  logger.on_epoch_end(0, first);
  logger.on_epoch_end(1, second);
  logger.on_train_end(second);
  EXPECT_EQ(read_file(path), "epoch,loss,accuracy\n0,0.5,0.25\n1,0.1,nan\n");

  CSVLogger again({.filename = path, .append = true});
  again.on_train_begin();
  again.on_epoch_end(2, first);
  again.on_train_end(first);
  EXPECT_EQ(read_file(path), "epoch,loss,accuracy\n0,0.5,0.25\n1,0.1,nan\n2,0.5,0.25\n");

  CSVLogger over({.filename = path, .separator = ';'});
  over.on_train_begin();
  over.on_epoch_end(0, first);
  over.on_train_end(first);
  EXPECT_EQ(read_file(path), "epoch;loss;accuracy\n0;0.5;0.25\n");
}

TEST(CSVLogger, SaysWhyItCannotWrite) {
  CSVLogger logger({.filename = "/nowhere/log.csv"});
  EXPECT_EQ(message_of<std::runtime_error>([&] { logger.on_train_begin(); }),
            "[csv_logger] cannot open /nowhere/log.csv for writing: No such file or directory");
  EXPECT_THROW(CSVLogger({.filename = {}}), std::invalid_argument);
}

}  // namespace
}  // namespace demi
