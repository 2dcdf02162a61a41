#include "src/core/check.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <demi/error.h>

namespace demi::internal {

void check_failed(const char* condition, const char* file, int line, std::string_view message) {
  std::string text = "[internal] ";
  text.append(message).append(" (").append(condition).append(" is false at ");
  text.append(file).append(":").append(std::to_string(line)).append(")");
  throw InternalError(text);
}

void fail_argument(std::string_view where, const std::string& message) {
  throw std::invalid_argument("[" + std::string(where) + "] " + message);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // One row of the Levenshtein table; `diagonal` is the entry above and to the left.
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace demi::internal
