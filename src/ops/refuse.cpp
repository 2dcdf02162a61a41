#include "src/ops/refuse.h"

#include <fmt/format.h>

#include "src/core/check.h"

namespace demi::ir {

void refuse(std::string_view op, std::string_view expected, std::span<const TensorType> received) {
  std::string list = received.empty() ? "nothing" : "";
  for (std::size_t i = 0; i < received.size(); ++i) {
    if (i > 0) list += i + 1 == received.size() ? " and " : ", ";
    list += received[i].to_string();
  }
  internal::fail_argument(op, fmt::format("expected {}. Received: {}.", expected, list));
}

}  // namespace demi::ir
