#include <array>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <demi/datasets.h>

#include "src/core/check.h"
#include "src/io/idx.h"

namespace demi::datasets {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kImageSize = 28;
constexpr std::int64_t kClasses = 10;

/// A data set in the format of MNIST.
struct Source {
  std::string name;
  /// Where a package of the system puts it; empty: none does.
  fs::path system_folder;
  std::string how_to_get_it;
};

/// `folder`/`stem` or the same with .gz.
std::optional<fs::path> find_file(const fs::path& folder, const std::string& stem) {
  for (const char* suffix : {"", ".gz"}) {
    fs::path path = folder / (stem + suffix);
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path;
  }
  return std::nullopt;
}

std::vector<fs::path> places(const Source& source, const fs::path& folder) {
  if (!folder.empty()) return {folder, folder / source.name};
  std::vector<fs::path> result;
  if (const char* variable = std::getenv("DEMI_DATA_DIR"); variable != nullptr && *variable != 0) {
    result.push_back(fs::path(variable) / source.name);
    result.emplace_back(variable);
  }
  if (!source.system_folder.empty()) result.push_back(source.system_folder);
  return result;
}

fs::path find_folder(const Source& source, const fs::path& folder) {
  const std::vector<fs::path> candidates = places(source, folder);
  std::string looked_at;
  for (const fs::path& candidate : candidates) {
    if (find_file(candidate, "train-images-idx3-ubyte")) return candidate;
    looked_at += (looked_at.empty() ? "" : ", ") + candidate.string();
  }
  throw std::runtime_error("[" + source.name +
                           "] expected train-images-idx3-ubyte (or .gz) in one " +
                           "of: " + (looked_at.empty() ? "(DEMI_DATA_DIR is not set)" : looked_at) +
                           ". Received: none there. " + source.how_to_get_it);
}

Tensor read(const Source& source, const fs::path& folder, const std::string& stem, int rank) {
  const std::optional<fs::path> path = find_file(folder, stem);
  if (!path) {
    throw std::runtime_error("[" + source.name + "] expected " + (folder / stem).string() +
                             " (or .gz) beside the other files. Received: no such file.");
  }
  Tensor values = io::read_idx(*path);
  const bool fits =
      values.shape().rank() == rank &&
      (rank == 1 || (values.shape()[1] == kImageSize && values.shape()[2] == kImageSize));
  if (!fits) {
    internal::fail_argument(source.name, "expected " + path->string() + " to have the shape " +
                                             (rank == 1 ? "[n]" : "[n, 28, 28]") +
                                             ". Received: " + values.shape().to_string() + ".");
  }
  return values;
}

Dataset read_part(const Source& source, const fs::path& folder, const std::string& part) {
  Tensor images = read(source, folder, part + "-images-idx3-ubyte", 3);
  Tensor labels = read(source, folder, part + "-labels-idx1-ubyte", 1);
  const std::int64_t count = images.shape()[0];
  if (labels.shape()[0] != count) {
    internal::fail_argument(
        source.name, "expected a label for each of the " + std::to_string(count) + " " + part +
                         " images in " + folder.string() +
                         ". Received: " + std::to_string(labels.shape()[0]) + ".");
  }
  for (const std::uint8_t label : std::as_const(labels).data<std::uint8_t>()) {
    if (label >= kClasses) {
      internal::fail_argument(source.name, "expected labels in [0, 10) in " + folder.string() +
                                               ". Received: " + std::to_string(label) + ".");
    }
  }
  Tensor with_channel = std::move(images).reshaped({count, kImageSize, kImageSize, 1});
  return Dataset(std::move(with_channel), std::move(labels)).rescaled(1.0 / 255);
}

std::pair<Dataset, Dataset> load(const Source& source, const fs::path& folder) {
  const fs::path found = find_folder(source, folder);
  // Most of the time goes into decompression, of which the test part is a seventh.
  std::future<Dataset> test = std::async(std::launch::async, read_part, source, found, "t10k");
  Dataset train = read_part(source, found, "train");
  return {std::move(train), test.get()};
}

}  // namespace

std::pair<Dataset, Dataset> mnist(const std::filesystem::path& folder) {
  return load({.name = "mnist",
               .system_folder = {},
               .how_to_get_it = "Put the four IDX files of MNIST into a folder and name it, or set "
                                "DEMI_DATA_DIR to it."},
              folder);
}

std::pair<Dataset, Dataset> fashion_mnist(const std::filesystem::path& folder) {
  return load(
      {.name = "fashion_mnist",
       .system_folder = "/usr/share/datasets/fashion-mnist",
       .how_to_get_it = "On Debian: apt-get install dataset-fashion-mnist. Elsewhere put "
                        "its four IDX files into a folder and name it, or set DEMI_DATA_DIR "
                        "to it."},
      folder);
}

}  // namespace demi::datasets
