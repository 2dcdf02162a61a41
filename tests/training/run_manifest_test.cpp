// The manifest of a run: what it holds, and that equal runs have equal ones.
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <demi/demi.h>

#include "tests/support/file_content.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/small_models.h"

namespace demi {
namespace {

namespace fs = std::filesystem;
using testing::blobs;
using testing::compiled_classifier;
using testing::fit_options_with;
using testing::TemporaryFolder;

Config manifest_of(const std::string& policy, const Dataset& data) {
  const auto manifest = std::make_shared<RunManifest>();
  (void)compiled_classifier(policy).fit(data, fit_options_with(manifest));
  return manifest->manifest();
}

TEST(RunManifest, HoldsWhatARunIsMadeOf) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "run.json";
  const auto callback = std::make_shared<RunManifest>(RunManifestOptions{.filename = path});
  Model model = compiled_classifier("mixed_float16");
  const History history = model.fit(blobs(40), fit_options_with(callback));
  const Config run = Config::parse(testing::content_of(path));
  EXPECT_EQ(run, callback->manifest());
  EXPECT_EQ(run.at("status").as_string(), "completed");
  EXPECT_EQ(run.at("policy").as_string(), "mixed_float16");
  EXPECT_EQ(run.at("optimizer").at("class_name").as_string(), "LossScaleOptimizer");
  EXPECT_EQ(run.at("fit").at("batch_size").as_integer(), 8);
  EXPECT_EQ(run.at("seeds").at("order").as_string(), "3");
  EXPECT_EQ(run.at("device").at("name").as_string(), "cpu");
  EXPECT_EQ(run.at("demi").at("version").as_string(), version());
  EXPECT_EQ(run.at("losses").as_list()[0].as_string(), "sparse_categorical_crossentropy");
  EXPECT_EQ(run.at("data").at("training").at("samples").as_integer(), 40);
  EXPECT_EQ(run.at("data").at("validation").at("samples").as_integer(), 24);
  EXPECT_EQ(run.at("results").at("loss").as_number(), history.last("loss"));
  EXPECT_EQ(run.at("results").at("steps").as_integer(), 10);
  // The model can be made again from it.
  const Model again = Model::from_json(run.at("model").to_json());
  EXPECT_EQ(again.count_params(), model.count_params());
}

TEST(RunManifest, IsTheSameForTheSameRunAndTellsDifferentData) {
  Config first = manifest_of("float32", blobs(40));
  Config second = manifest_of("float32", blobs(40));
  first.set("timing", {});
  second.set("timing", {});
  EXPECT_EQ(first, second);
  const auto checksum = [](const Config& run) {
    return run.at("data").at("training").at("inputs").as_list()[0].at("crc32c").as_string();
  };
  EXPECT_EQ(checksum(first).size(), 8u);
  EXPECT_NE(checksum(manifest_of("float32", blobs(40).shuffle(1))), checksum(first));
  EXPECT_NE(checksum(manifest_of("float32", blobs(39))), checksum(first));
}

TEST(RunManifest, SaysThatARunHasFailed) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "run.json";
  Model model = compiled_classifier("float32");
  FitOptions options = fit_options_with(RunManifest({.filename = path}));
  options.callbacks.push_back(LambdaCallback(
      {.on_epoch_end = [](int, const Logs&) { throw std::runtime_error("out of ink"); }}));
  EXPECT_THROW((void)model.fit(blobs(40), options), std::runtime_error);
  const Config run = Config::parse(testing::content_of(path));
  EXPECT_EQ(run.at("status").as_string(), "failed");
  EXPECT_EQ(run.at("error").as_string(), "out of ink");
}

TEST(RunManifest, RefusesAFileItCannotWriteBeforeTraining) {
  Model model = compiled_classifier("float32");
  const std::vector<Tensor> before = model.get_weights();
  const std::string message = testing::message_of<std::runtime_error>([&] {
    (void)model.fit(blobs(40),
                    fit_options_with(RunManifest({.filename = "/proc/nowhere/run.json"})));
  });
  EXPECT_NE(message.find("'/proc/nowhere/run.json'"), std::string::npos) << message;
  testing::expect_same_weights(model.get_weights(), before);
}

TEST(RunManifest, KeepsTheResultsOfTrainingWhenTheDiskIsFullAtTheEnd) {
  const TemporaryFolder folder;
  const auto callback =
      std::make_shared<RunManifest>(RunManifestOptions{.filename = folder.path() / "run.json"});
  std::unique_ptr<testing::FileSizeLimit> limit;
  FitOptions options = fit_options_with(callback);
  options.callbacks.push_back(LambdaCallback({.on_epoch_begin = [&](int) {
    if (!limit) limit = std::make_unique<testing::FileSizeLimit>(1024);
  }}));
  ::testing::internal::CaptureStderr();
  const History history = compiled_classifier("float32").fit(blobs(40), options);
  limit.reset();
  const std::string errors = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(history.epoch.size(), 2u);
  EXPECT_NE(callback->error(), "");
  EXPECT_NE(errors.find("[run_manifest] the end of the run is not in "), std::string::npos);
  const Config kept = Config::parse(testing::content_of(folder.path() / "run.json"));
  EXPECT_EQ(kept.at("status").as_string(), "running");
  EXPECT_EQ(callback->manifest().at("status").as_string(), "completed");
}

}  // namespace
}  // namespace demi
