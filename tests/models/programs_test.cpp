// The programs as a user meets them: their options, their errors, their files.
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/paths.h"

namespace demi {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs a program that stands beside this one.
Outcome run(const std::string& arguments) {
  const TemporaryFolder folder;
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  const std::string command = bin.string() + "/" + arguments + " > " +
                              (folder.path() / "out").string() + " 2> " +
                              (folder.path() / "err").string();
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(folder.path() / "out"),
          read(folder.path() / "err")};
}

void write_idx(const fs::path& path, const std::vector<int>& shape, int modulus) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  int elements = 1;
  for (const int extent : shape) {
    bytes += {0, 0, static_cast<char>(extent >> 8), static_cast<char>(extent)};
    elements *= extent;
  }
  for (int i = 0; i < elements; ++i) bytes += static_cast<char>(i % modulus);
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A folder with 60 + 20 images.
class Programs : public ::testing::Test {
 protected:
  Programs() {
    write_idx(data("train-images-idx3-ubyte"), {60, 28, 28}, 251);
    write_idx(data("train-labels-idx1-ubyte"), {60}, 10);
    write_idx(data("t10k-images-idx3-ubyte"), {20, 28, 28}, 251);
    write_idx(data("t10k-labels-idx1-ubyte"), {20}, 10);
  }
  [[nodiscard]] fs::path data(const std::string& name) const { return folder_.path() / name; }
  [[nodiscard]] std::string arguments() const {
    return " --data " + folder_.path().string() + " --batch-size 16 --threads 1";
  }

  TemporaryFolder folder_;
};

/// One line on stderr that names the program and contains `text`; nothing on stdout.
void expect_error(const Outcome& outcome, int status, const std::string& text) {
  EXPECT_EQ(outcome.status, status);
  EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << "not one line: " << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

void expect_run(const nlohmann::json& run, const std::string& policy, int epochs) {
  EXPECT_EQ(run.at("policy"), policy);
  EXPECT_EQ(run.at("device"), "cpu");
  for (const char* name :
       {"seed", "test_accuracy", "test_loss", "images_per_second", "step_ms_median",
        "first_step_seconds", "peak_rss_bytes", "skipped_steps", "loss_scale"}) {
    EXPECT_TRUE(run.at(name).is_number()) << name;
  }
  for (const char* name : {"activations", "weights", "compute_copies", "gradients", "optimizer",
                           "workspace", "total"}) {
    EXPECT_TRUE(run.at("planned_bytes").at(name).is_number()) << name;
  }
  ASSERT_EQ(run.at("epochs").size(), static_cast<std::size_t>(epochs));
  EXPECT_TRUE(run.at("epochs")[0].at("accuracy").is_number());
}

TEST_F(Programs, MnistCnnTrainsAndWritesJson) {
  const fs::path json = data("result.json");
  const Outcome outcome = run("mnist_cnn --policy mixed_float16 --epochs 2 --seed 3 --json " +
                              json.string() + arguments());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("Epoch 2/2\n4/4 - "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("mixed_float16, seed 3: test accuracy"), std::string::npos);
  const nlohmann::json run = nlohmann::json::parse(read(json));
  expect_run(run, "mixed_float16", 2);
  EXPECT_EQ(run.at("seed"), 3);
  EXPECT_EQ(run.at("planned_bytes").at("weights"), 4 * 225034);
}

TEST_F(Programs, MnistCnnStopsAfterSteps) {
  const Outcome outcome = run("mnist_cnn --policy float32 --epochs 9 --steps 2" + arguments());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2/4 - "), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("Epoch 2/"), std::string::npos) << outcome.out;
}

TEST_F(Programs, MnistCnnWritesLogsWhoseManifestsCanBeCompared) {
  const auto train = [&](const std::string& folder, const std::string& more) {
    return run("mnist_cnn --epochs 1 --seed 3 --monitor-precision --log-dir " +
               data(folder).string() + arguments() + more);
  };
  const Outcome outcome = train("a", "");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("Precision after 1 look"), std::string::npos) << outcome.out;
  EXPECT_TRUE(fs::exists(data("a") / "train"));
  ASSERT_EQ(train("b", "").status, 0);
  ASSERT_EQ(train("c", " --policy float32").status, 0);
  const auto diff = [&](const std::string& a, const std::string& b) {
    return run("demi diff " + data(a).string() + " " + data(b).string());
  };
  const Outcome same = diff("a/run.json", "b/run.json");
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_EQ(same.out, "");
  const Outcome different = diff("a/run.json", "c/run.json");
  EXPECT_EQ(different.status, 1);
  EXPECT_NE(different.out.find("policy: \"mixed_float16\" -> \"float32\"\n"), std::string::npos)
      << different.out;
  EXPECT_EQ(different.out.find("timing"), std::string::npos);
  EXPECT_EQ(
      run("demi diff --all " + data("a/run.json").string() + " " + data("b/run.json").string())
          .status,
      1);
  expect_error(diff("a/run.json", "nowhere.json"), 2, "demi diff: cannot read '");
  expect_error(diff("a/run.json", "t10k-labels-idx1-ubyte"), 2, "demi diff: expected JSON in '");
  expect_error(run("demi diff one.json"), 2, "demi: ");
}

TEST_F(Programs, MnistCnnRefusesALogFolderItCannotWriteBeforeTraining) {
  const Outcome outcome = run("mnist_cnn --epochs 1 --log-dir /proc/nowhere" + arguments());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("mnist_cnn: [events] could not make '/proc/nowhere"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.out.find("4/4"), std::string::npos) << outcome.out;
}

TEST_F(Programs, ComparePrecisionWritesAReportThatLoadsNothing) {
  const fs::path html = data("report.html");
  const Outcome outcome =
      run("compare_precision --model mlp --policies float32,mixed_float16 --seeds 2 --steps 6 "
          "--html " +
          html.string() + arguments());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string page = read(html);
  for (const std::string part :
       {"<!doctype html>", "Training loss, every seed", "Loss scale, every seed",
        "Live buffers during one step, mixed_float16", "MB (10^6 bytes)", "images/s",
        "prefers-color-scheme: dark", "@media print", "float16 holds what was looked at"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  for (const std::string part : {"http://", "https://", "src=", "<script", "@import", "url("}) {
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  }
  EXPECT_NE(page.rfind("</html>"), std::string::npos);
}

TEST_F(Programs, ComparePrecisionWritesRunsAndSummary) {
  const fs::path json = data("result.json");
  const Outcome outcome =
      run("compare_precision --model mlp --policies float32,mixed_bfloat16 --seeds 2 --steps 3 "
          "--json " +
          json.string() + arguments());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("test accuracy, %"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("difference [95 %], points"), std::string::npos) << outcome.out;
  const nlohmann::json result = nlohmann::json::parse(read(json));
  ASSERT_EQ(result.at("runs").size(), 4u);
  // Interleaved seed by seed.
  const char* policies[] = {"float32", "mixed_bfloat16", "float32", "mixed_bfloat16"};
  for (std::size_t i = 0; i < 4; ++i) {
    expect_run(result["runs"][i], policies[i], 1);
    EXPECT_EQ(result["runs"][i]["seed"], i / 2);
  }
  EXPECT_TRUE(
      result.at("summary").at("mixed_bfloat16").at("difference").at("half_width").is_number());
  const nlohmann::json& first = result["runs"][0];
  EXPECT_EQ(first.at("manifest").at("status"), "completed");
  EXPECT_EQ(first.at("manifest").at("data").at("training").at("samples"), 60);
  ASSERT_EQ(first.at("curve").size(), 3u);
  EXPECT_EQ(first.at("curve")[2].at("step"), 3);
}

TEST_F(Programs, PlanPrintsThePrecisionOfEveryOperation) {
  const Outcome outcome =
      run("demi plan --model mlp --policy mixed_float16 --device cpu --precision");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const char* part : {"Precision of one step under mixed_float16, batch 128, on cpu",
                           "dense: matmul", "In float32 although", "Hints:"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
}

TEST_F(Programs, SuggestOptionsAndValues) {
  expect_error(run("mnist_cnn --polcy float32"), 2,
               "mnist_cnn: unknown argument '--polcy'. Did you mean '--policy'?");
  expect_error(run("mnist_cnn --epoch=3"), 2, "Did you mean '--epochs'?");
  expect_error(run("compare_precision --polices float32"), 2,
               "compare_precision: unknown argument '--polices'. Did you mean '--policies'?");
  expect_error(run("mnist_cnn --policy mixed_float61"), 2, "mixed_float16");
  expect_error(run("mnist_cnn --device gpuu"), 2, "Did you mean 'gpu'?");
  expect_error(run("mnist_cnn --epochs 0"), 2, "--epochs");
  expect_error(run("mnist_cnn --epochs three"), 2, "--epochs");
  expect_error(run("mnist_cnn --learning-rate -1"), 2, "--learning-rate");
  expect_error(run("compare_precision --model resnet2"), 2, "Did you mean 'resnet20'?");
  expect_error(run("compare_precision --policies float32,mixed_flota16"), 2, "mixed_float16");
  expect_error(run("demi plam"), 2, "demi: unknown argument 'plam'. Did you mean 'plan'?");
  expect_error(run("demi plan --modle=mlp"), 2,
               "unknown argument '--modle=mlp'. Did you mean "
               "'--model'?");
  expect_error(run("demi"), 2, "demi: A subcommand is required");
}

TEST_F(Programs, SayWhatIsWrongWithTheirSurroundings) {
  expect_error(run("mnist_cnn --data /nowhere"), 1,
               "mnist_cnn: [fashion_mnist] expected train-images-idx3-ubyte (or .gz) in one of: "
               "/nowhere");
  expect_error(run("compare_precision --data /nowhere"), 1, "compare_precision: [fashion_mnist]");
  expect_error(run("mnist_cnn --device gpu" + arguments()), 1, "[device] expected a GPU");
  fs::resize_file(data("train-images-idx3-ubyte"), 1000);
  expect_error(run("mnist_cnn" + arguments()), 1, "train-images-idx3-ubyte");
}

TEST_F(Programs, RefuseFilesTheyCannotWriteBeforeTraining) {
  for (const std::string program : {"mnist_cnn", "compare_precision"}) {
    const std::string command = program + arguments() + " --json ";
    expect_error(run(command + "/nowhere/result.json"), 2,
                 "--json: cannot write '/nowhere/result.json': No such file or directory.");
    expect_error(run(command + "/proc/result.json"), 2, "cannot write '/proc/result.json': ");
    expect_error(run(command + folder_.path().string()), 2, "': Is a directory.");
    expect_error(run(command + data("train-labels-idx1-ubyte").string() + "/result.json"), 2,
                 "': Not a directory.");
  }
}

TEST_F(Programs, LeaveNothingBesideTheFileTheyWrite) {
  const fs::path results = data("results");
  fs::create_directory(results);
  const Outcome outcome =
      run("mnist_cnn --steps 1 --json " + (results / "a.json").string() + arguments());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const fs::directory_entry& entry : fs::directory_iterator(results)) {
    EXPECT_EQ(entry.path().filename(), "a.json");
  }
}

TEST_F(Programs, ComparePrecisionReportsTheErrorOfARun) {
  expect_error(run("compare_precision --policies float32,float32" + arguments()), 1,
               "expected different policies");
  const Outcome outcome = run("compare_precision --device gpu" + arguments());
  expect_error(outcome, 1, "float32, seed 0: [device] expected a GPU");
}

TEST_F(Programs, ShowHelp) {
  for (const char* program : {"mnist_cnn", "compare_precision"}) {
    const Outcome outcome = run(std::string(program) + " --help");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.out.find("--learning-rate"), std::string::npos) << outcome.out;
  }
}

}  // namespace
}  // namespace demi
