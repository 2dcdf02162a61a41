#include "tests/support/paths.h"

#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace demi::testing {

std::filesystem::path golden_path(std::string_view name) {
  return std::filesystem::path(DEMI_TESTS_DIR) / "golden" / name;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "demi_test_XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + pattern);
  }
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace demi::testing
