// KeptChoices: a folder of its own for what measurements choose, while they are switched on.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/environment.h"

namespace demi::testing {

/// Lives as long as a test; `name` keeps apart what runs side by side.
class KeptChoices {
 public:
  explicit KeptChoices(const std::string& name)
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("demi_" + name + "_" + std::to_string(getpid()))),
        cache_("DEMI_CACHE_DIR", folder_.string()),
        tune_("DEMI_AUTOTUNE", "1") {
    clear();
  }
  ~KeptChoices() { clear(); }
  KeptChoices(const KeptChoices&) = delete;
  KeptChoices& operator=(const KeptChoices&) = delete;

  void clear() const { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> list;
    if (!std::filesystem::exists(folder_)) return list;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) list.push_back(entry.path());
    }
    return list;
  }

  [[nodiscard]] static nlohmann::json read(const std::filesystem::path& file) {
    std::ifstream stream(file);
    return nlohmann::json::parse(stream);
  }

 private:
  std::filesystem::path folder_;
  Environment cache_;
  Environment tune_;
};

}  // namespace demi::testing
