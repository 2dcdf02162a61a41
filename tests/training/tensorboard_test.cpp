// The TensorBoard callback: what its files hold, and that training never depends on them.
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <demi/demi.h>
#include <nlohmann/json.hpp>

#include "src/io/event.pb.h"
#include "src/io/record_file.h"
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

/// The events of the only event file in a folder.
std::vector<events::Event> events_in(const fs::path& folder) {
  std::vector<events::Event> result;
  for (const auto& entry : fs::directory_iterator(folder)) {
    io::RecordReader reader(entry.path());
    while (const auto record = reader.next()) {
      EXPECT_TRUE(result.emplace_back().ParseFromString(*record));
    }
  }
  return result;
}

/// Values by tag and step.
std::map<std::string, std::map<std::int64_t, float>> scalars_in(const fs::path& folder) {
  std::map<std::string, std::map<std::int64_t, float>> scalars;
  for (const events::Event& event : events_in(folder)) {
    for (const auto& value : event.summary().value()) {
      if (value.value_case() == events::Summary::Value::kSimpleValue) {
        scalars[value.tag()][event.step()] = value.simple_value();
      }
    }
  }
  return scalars;
}

TEST(TensorBoard, WritesScalarsOfEpochsAndSteps) {
  const TemporaryFolder folder;
  Model model = compiled_classifier("mixed_float16");
  const History history = model.fit(
      blobs(40), fit_options_with(TensorBoard({.log_dir = folder.path(), .update_freq = 2})));
  auto train = scalars_in(folder.path() / "train");
  auto validation = scalars_in(folder.path() / "validation");
  for (const std::string name : {"loss", "accuracy"}) {
    ASSERT_EQ(train["epoch_" + name].size(), 2u);
    EXPECT_FLOAT_EQ(train["epoch_" + name][1], static_cast<float>(history.history.at(name).back()));
    EXPECT_FLOAT_EQ(validation["epoch_" + name][1],
                    static_cast<float>(history.history.at("val_" + name).back()));
  }
  EXPECT_FLOAT_EQ(train["epoch_learning_rate"][0], 0.1f);
  // Steps are counted over all epochs; the second point has the steps since the first.
  std::vector<std::int64_t> steps;
  for (const auto& [step, value] : train["step/loss"]) steps.push_back(step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{2, 4, 6, 8, 10}));
  EXPECT_EQ(train["precision/loss_scale"][10], 32768);
  EXPECT_EQ(train["precision/skipped_steps"][10], 0);
  EXPECT_GT(train["step/images_per_second"][4], 0);
  const double epoch_loss = history.history.at("loss")[0];
  EXPECT_LT(std::abs(train["step/loss"][2] - epoch_loss), epoch_loss);
  EXPECT_GT(train["memory/weights_MB"].begin()->second, 0);
}

TEST(TensorBoard, MeansOfIntervalsAreTheStepsOwn) {
  const TemporaryFolder folder;
  std::vector<double> totals;
  const auto note = [&](std::int64_t batch, const BatchLogs& logs) {
    totals.push_back(logs.values().at("loss") * static_cast<double>(batch + 1));
  };
  Model model = compiled_classifier("float32");
  FitOptions options = fit_options_with(TensorBoard({.log_dir = folder.path(), .update_freq = 1}));
  options.epochs = 1;
  options.callbacks.push_back(LambdaCallback({.on_train_batch_end = note}));
  (void)model.fit(blobs(32), options);
  auto train = scalars_in(folder.path() / "train");
  double before = 0;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    EXPECT_NEAR(train["step/loss"][static_cast<std::int64_t>(i) + 1], totals[i] - before, 1e-5);
    before = totals[i];
  }
}

TEST(TensorBoard, ReportsGradientsOfTheStepWithoutTheLossScale) {
  std::map<std::string, float> norms;
  for (const std::string policy : {"float32", "mixed_float16"}) {
    const TemporaryFolder folder;
    Model model = compiled_classifier(policy);
    const std::vector<Tensor> before = model.get_weights();
    FitOptions options =
        fit_options_with(TensorBoard({.log_dir = folder.path(), .gradient_freq = 1}));
    options.max_steps = 1;
    (void)model.fit(blobs(40), options);
    auto train = scalars_in(folder.path() / "train");
    norms[policy] = train["gradients/global_norm"].at(1);
    // Plain SGD: the change is the learning rate times the gradient.
    double change = 0;
    double norm = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Tensor now = model.get_weights()[i].to(float64);
      const Tensor then = before[i].to(float64);
      double squares = 0;
      for (std::int64_t j = 0; j < now.elements(); ++j) {
        change += std::pow(now.at(j) - then.at(j), 2);
        squares += std::pow(now.at(j) - then.at(j), 2);
        if (i == 0) norm += std::pow(then.at(j), 2);
      }
      if (i == 0) {
        EXPECT_NEAR(train["update_ratio/" + model.variables()[0].name()].at(1),
                    std::sqrt(squares / norm), 1e-5);
      }
    }
    EXPECT_NEAR(norms[policy], std::sqrt(change) / 0.1, 1e-3 * norms[policy]) << policy;
  }
  EXPECT_NEAR(norms["mixed_float16"], norms["float32"], 0.01 * norms["float32"]);
}

TEST(TensorBoard, WritesHistogramsGraphTextAndHyperParameters) {
  const TemporaryFolder folder;
  Model model = compiled_classifier("mixed_float16");
  (void)model.fit(blobs(40), fit_options_with(TensorBoard({.log_dir = folder.path() / "run",
                                                           .gradient_freq = 1,
                                                           .hparams = {{"width", 16.0}}})));
  std::set<std::string> histograms;
  std::set<std::string> nodes;
  std::string text;
  std::string hparams;
  for (const events::Event& event : events_in(folder.path() / "run" / "train")) {
    events::GraphDef graph;
    if (event.what_case() == events::Event::kGraphDef) {
      ASSERT_TRUE(graph.ParseFromString(event.graph_def()));
    }
    for (const auto& node : graph.node()) {
      EXPECT_TRUE(nodes.insert(node.name()).second) << node.name();
    }
    for (const auto& value : event.summary().value()) {
      if (value.has_histogram()) histograms.insert(value.tag());
      if (value.tag() == "configuration") text = value.tensor().string_val(0);
      if (value.tag() == "_hparams_/session_start_info") {
        hparams = value.metadata().plugin_data().content();
      }
    }
  }
  for (const Variable& variable : model.trainable_variables()) {
    for (const std::string kind : {"weights/", "gradients/", "gradient_exponents/"}) {
      EXPECT_TRUE(histograms.contains(kind + variable.name())) << kind << variable.name();
    }
  }
  EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(), [](const std::string& name) {
    return name.starts_with("dense/matmul_");
  }));
  EXPECT_NE(text.find("\"policy\": \"mixed_float16\""), std::string::npos) << text;
  events::HParams content;
  ASSERT_TRUE(content.ParseFromString(hparams));
  const auto& values = content.session_start().hparams();
  EXPECT_EQ(content.session_start().group_name(), "run");
  EXPECT_EQ(values.at("width").number_value(), 16);
  EXPECT_EQ(values.at("policy").string_value(), "mixed_float16");
  EXPECT_EQ(values.at("batch_size").number_value(), 8);
}

TEST(TensorBoard, ProfilesOneStepWithoutChangingIt) {
  const TemporaryFolder folder;
  Model profiled = compiled_classifier("mixed_float16");
  Model plain = compiled_classifier("mixed_float16");
  (void)profiled.fit(blobs(40),
                     fit_options_with(TensorBoard({.log_dir = folder.path(), .profile_step = 3})));
  (void)plain.fit(blobs(40), fit_options_with(LambdaCallback({})));
  testing::expect_same_weights(profiled.get_weights(), plain.get_weights());

  const auto trace =
      nlohmann::json::parse(testing::content_of(folder.path() / "step_3.trace.json"));
  double end = 0;
  std::set<std::string> phases;
  std::set<std::string> layers;
  int memory_points = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "C") ++memory_points;
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("ts").get<double>(), end);
    end = event.at("ts").get<double>() + event.at("dur").get<double>();
    phases.insert(event.at("cat"));
    layers.insert(event.at("args").at("layer"));
  }
  EXPECT_EQ(phases, (std::set<std::string>{"forward", "backward", "update"}));
  EXPECT_TRUE(layers.contains("dense"));
  EXPECT_GT(memory_points, 5);
}

TEST(TensorBoard, RefusesAFolderItCannotWriteBeforeTraining) {
  Model model = compiled_classifier("float32");
  const std::vector<Tensor> before = model.get_weights();
  const std::string message = testing::message_of<std::runtime_error>([&] {
    (void)model.fit(blobs(40), fit_options_with(TensorBoard({.log_dir = "/proc/nowhere"})));
  });
  EXPECT_NE(message.find("[events] could not make '/proc/nowhere"), std::string::npos) << message;
  testing::expect_same_weights(model.get_weights(), before);
}

TEST(TensorBoard, StopsLoggingButNotTrainingOnAFullDisk) {
  const TemporaryFolder folder;
  const auto callback = std::make_shared<TensorBoard>(TensorBoardOptions{.log_dir = folder.path()});
  Model model = compiled_classifier("float32");
  Model plain = compiled_classifier("float32");
  History history;
  ::testing::internal::CaptureStderr();
  {
    // Enough for the description of the run, not for its graph.
    const testing::FileSizeLimit limit(8192);
    history = model.fit(blobs(40), fit_options_with(callback));
  }
  const std::string errors = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(callback->error().find("File too large"), std::string::npos) << callback->error();
  EXPECT_NE(errors.find("[tensorboard] logging stops at step 0, training goes on: "),
            std::string::npos)
      << errors;
  EXPECT_NE(errors.find("has no events of the end of this run"), std::string::npos) << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 2);
  (void)plain.fit(blobs(40), fit_options_with(LambdaCallback({})));
  testing::expect_same_weights(model.get_weights(), plain.get_weights());
  EXPECT_EQ(history.epoch.size(), 2u);
  EXPECT_FALSE(events_in(folder.path() / "train").empty()) << "what was written stays readable";
}

TEST(TensorBoard, RefusesNonsense) {
  EXPECT_THROW(TensorBoard({.log_dir = ""}), std::invalid_argument);
  EXPECT_THROW(TensorBoard({.update_freq = -1}), std::invalid_argument);
}

}  // namespace
}  // namespace demi
