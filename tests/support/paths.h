// Where tests find their data and put their files.
#pragma once

#include <filesystem>
#include <string_view>

namespace demi::testing {

/// tests/golden/`name` of the source tree.
[[nodiscard]] std::filesystem::path golden_path(std::string_view name);

/// A fresh folder that lives as long as the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace demi::testing
