// The search for a batch size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace demi::internal {

/// A batch size b in [1, most] with bytes(b) <= limit < bytes(b + 1), or `most` if that fits; 0 if
/// not even 1 does. `bytes`, which is costly, should grow about linearly: then few calls are
/// needed.
[[nodiscard]] std::int64_t largest_batch(const std::function<std::size_t(std::int64_t)>& bytes,
                                         std::size_t limit, std::int64_t most);

}  // namespace demi::internal
