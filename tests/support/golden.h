// Comparison of printed text with files under tests/golden.
#pragma once

#include <string>

namespace demi::testing {

/// Expects `text` to be the content of tests/golden/`name`. With DEMI_UPDATE_GOLDEN=1 in the
/// environment the file is written instead, and the test fails so that nobody runs that way.
void expect_golden(const std::string& name, const std::string& text);

}  // namespace demi::testing
