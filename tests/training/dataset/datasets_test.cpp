#include <demi/datasets.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/paths.h"

namespace demi::datasets {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

/// Sets DEMI_DATA_DIR for its lifetime; null: unset.
class DataDirectory {
 public:
  explicit DataDirectory(const char* value) {
    if (const char* before = std::getenv("DEMI_DATA_DIR")) before_ = before;
    set(value);
  }
  ~DataDirectory() { set(before_.empty() ? nullptr : before_.c_str()); }

 private:
  static void set(const char* value) {
    if (value == nullptr) {
      unsetenv("DEMI_DATA_DIR");
    } else {
      setenv("DEMI_DATA_DIR", value, 1);
    }
  }
  std::string before_;
};

void write_idx(const fs::path& path, const std::vector<int>& shape, std::uint8_t first_value) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  int elements = 1;
  for (const int extent : shape) {
    bytes += {0, 0, static_cast<char>(extent >> 8), static_cast<char>(extent)};
    elements *= extent;
  }
  for (int i = 0; i < elements; ++i) bytes += static_cast<char>(first_value + i % 7);
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

void write_data(const fs::path& folder, std::uint8_t first_value = 1) {
  write_idx(folder / "train-images-idx3-ubyte", {5, 28, 28}, first_value);
  write_idx(folder / "train-labels-idx1-ubyte", {5}, 0);
  write_idx(folder / "t10k-images-idx3-ubyte", {3, 28, 28}, first_value);
  write_idx(folder / "t10k-labels-idx1-ubyte", {3}, 2);
}

TEST(Datasets, ReadsTheFourFiles) {
  const TemporaryFolder folder;
  write_data(folder.path());
  const auto [train, test] = mnist(folder.path());
  EXPECT_EQ(train.size(), 5);
  EXPECT_EQ(test.size(), 3);
  EXPECT_EQ(train.input().shape(), (Shape{5, 28, 28, 1}));
  EXPECT_EQ(train.input().dtype(), uint8);
  EXPECT_EQ(train.input_rescale(), (Rescale{1.0 / 255, 0}));
  EXPECT_EQ(train.target().shape(), (Shape{5}));
  EXPECT_EQ(train.input().at(2), 3);
  EXPECT_EQ(test.target().at(1), 3);
}

TEST(Datasets, PrefersTheSubfolderOfItsName) {
  const TemporaryFolder folder;
  write_data(folder.path(), 1);
  write_data(folder.path() / "fashion_mnist", 100);
  const DataDirectory variable(folder.path().c_str());
  EXPECT_EQ(fashion_mnist().first.input().at(0), 100);
  EXPECT_EQ(mnist().first.input().at(0), 1);
}

TEST(Datasets, NamesEveryPlaceLookedAt) {
  const DataDirectory variable("/nowhere/data");
  const std::string message = message_of<std::runtime_error>([] { (void)mnist(); });
  EXPECT_EQ(message,
            "[mnist] expected train-images-idx3-ubyte (or .gz) in one of: /nowhere/data/mnist, "
            "/nowhere/data. Received: none there. Put the four IDX files of MNIST into a folder "
            "and name it, or set DEMI_DATA_DIR to it.");
  const std::string fashion =
      message_of<std::runtime_error>([] { (void)fashion_mnist("/nowhere/else"); });
  EXPECT_NE(fashion.find("/nowhere/else"), std::string::npos) << fashion;
  EXPECT_EQ(fashion.find("/nowhere/data"), std::string::npos) << fashion;
  EXPECT_NE(fashion.find("apt-get install dataset-fashion-mnist"), std::string::npos) << fashion;
}

TEST(Datasets, SaysWhichFileIsMissing) {
  const TemporaryFolder folder;
  write_data(folder.path());
  fs::remove(folder.path() / "t10k-labels-idx1-ubyte");
  const std::string message = message_of<std::runtime_error>([&] { (void)mnist(folder.path()); });
  EXPECT_NE(message.find("t10k-labels-idx1-ubyte"), std::string::npos) << message;
}

TEST(Datasets, RefusesFilesThatDoNotBelongTogether) {
  const TemporaryFolder folder;
  write_data(folder.path());
  write_idx(folder.path() / "train-labels-idx1-ubyte", {4}, 0);
  EXPECT_NE(message_of<std::invalid_argument>([&] {
              (void)mnist(folder.path());
            }).find("expected a label for each of the 5 train images"),
            std::string::npos);
  write_idx(folder.path() / "train-labels-idx1-ubyte", {5}, 9);
  EXPECT_NE(message_of<std::invalid_argument>([&] {
              (void)mnist(folder.path());
            }).find("expected labels in [0, 10)"),
            std::string::npos);
  write_data(folder.path());
  write_idx(folder.path() / "train-images-idx3-ubyte", {5, 14, 56}, 0);
  EXPECT_NE(message_of<std::invalid_argument>([&] {
              (void)mnist(folder.path());
            }).find("[n, 28, 28]. Received: [5, 14, 56]."),
            std::string::npos);
}

TEST(Datasets, ReadsTheSystemsFashionMnist) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "Debian's package dataset-fashion-mnist is not installed";
  }
  const DataDirectory variable(nullptr);
  const auto [train, test] = fashion_mnist();
  EXPECT_EQ(train.size(), 60000);
  EXPECT_EQ(test.size(), 10000);
  std::vector<int> counts(10);
  for (const std::uint8_t label : test.target().data<std::uint8_t>()) ++counts[label];
  EXPECT_EQ(counts, std::vector<int>(10, 1000));
}

}  // namespace
}  // namespace demi::datasets
