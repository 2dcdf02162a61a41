#include "tests/support/golden.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/paths.h"

namespace demi::testing {

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = golden_path(name).string();
  if (std::getenv("DEMI_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    ADD_FAILURE() << "wrote " << path;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << "missing " << path;
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << path;
}

}  // namespace demi::testing
