// DEMI_CHECK: the assertion of demi's own invariants, on in every build.
#pragma once

#include <string>
#include <string_view>

namespace demi::internal {

/// Throws InternalError naming the condition and place. Kept out of line so that call sites stay
/// small.
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               std::string_view message);

/// Throws std::invalid_argument "[where] message".
[[noreturn]] void fail_argument(std::string_view where, const std::string& message);

/// " Did you mean 'relu'?" for the candidate closest to `name` (edit distance at most a third of
/// its length, at least 2), else "".
template <class Names>
std::string did_you_mean(std::string_view name, const Names& candidates);

std::size_t edit_distance(std::string_view a, std::string_view b);

template <class Names>
std::string did_you_mean(std::string_view name, const Names& candidates) {
  std::size_t best = 1 + (name.size() < 6 ? 2 : name.size() / 3);
  std::string suggestion;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      suggestion = " Did you mean '" + std::string(candidate) + "'?";
    }
  }
  return suggestion;
}

}  // namespace demi::internal

#define DEMI_CHECK(condition, ...)                                                   \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      ::demi::internal::check_failed(#condition, __FILE__, __LINE__, (__VA_ARGS__)); \
  } while (false)
