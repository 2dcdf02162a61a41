#include "src/optimizers/options.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/core/check.h"

namespace demi::internal {

void OptionReader::finish() const {
  for (const auto& [key, value] : config_.entries()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end() || value.is_null()) continue;
    fail_argument(where_, fmt::format("expected options among {}. Received: '{}'.{}",
                                      fmt::join(known_, ", "), key, did_you_mean(key, known_)));
  }
}

void check_option(bool ok, const std::string& where, const char* name, const char* expected,
                  double value) {
  if (ok) return;
  fail_argument(where, fmt::format("expected {} {}. Received: {}.", name, expected, value));
}

}  // namespace demi::internal
