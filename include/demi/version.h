// Which demi this is.
#pragma once

#include <string>

namespace demi {

/// "0.1.0".
[[nodiscard]] std::string version();

/// The commit that the library was built from, 40 hexadecimal digits, followed by "-dirty" if
/// tracked files had been changed; empty if it was not built in a git checkout.
[[nodiscard]] std::string git_revision();

}  // namespace demi
