#include "src/layers/layer_state.h"

#include <cctype>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/core/philox.h"
#include "src/core/variable_state.h"

namespace demi {
namespace {

/// What automatic names and seeds count, per process.
struct Counters {
  std::mutex mutex;
  std::map<std::string, int> names;
  std::uint64_t seed = 0;
  std::uint64_t layers = 0;
};

Counters& counters() {
  static Counters instance;
  return instance;
}

bool is_upper(char c) {
  return std::isupper(static_cast<unsigned char>(c)) != 0;
}
bool is_lower(char c) {
  return std::islower(static_cast<unsigned char>(c)) != 0;
}

}  // namespace

void set_random_seed(std::uint64_t seed) {
  const std::lock_guard lock(counters().mutex);
  counters().seed = seed;
  counters().layers = 0;
}

std::uint64_t random_seed() {
  const std::lock_guard lock(counters().mutex);
  return counters().seed;
}

void reset_layer_names() {
  const std::lock_guard lock(counters().mutex);
  counters().names.clear();
}

namespace internal {

void for_each_weight(const LayerState& layer,
                     const std::function<void(const LayerState&, const Weight&)>& visit) {
  for (const Weight& weight : layer.weights) visit(layer, weight);
  for (const auto& inner : layer.sublayers) for_each_weight(*inner, visit);
}

void set_trainable(LayerState& layer, bool trainable) {
  layer.trainable = trainable;
  for (const Weight& weight : layer.weights) {
    weight.variable.state()->trainable = trainable && weight.trainable;
  }
  for (const auto& inner : layer.sublayers) set_trainable(*inner, trainable);
}

std::string snake_case(std::string_view class_name) {
  std::string result;
  for (std::size_t i = 0; i < class_name.size(); ++i) {
    const char c = class_name[i];
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') continue;
    // A word begins at a capital that a small letter follows, or that follows one.
    const bool before_lower = i + 1 < class_name.size() && is_lower(class_name[i + 1]);
    const bool after_lower = i > 0 && is_lower(class_name[i - 1]);
    if (i > 0 && is_upper(c) && (before_lower || after_lower)) result += '_';
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

std::string unique_name(const std::string& prefix) {
  const std::lock_guard lock(counters().mutex);
  const int count = counters().names[prefix]++;
  return count == 0 ? prefix : prefix + "_" + std::to_string(count);
}

void check_name(const std::string& name, const std::string& where) {
  if (name.find('/') == std::string::npos) return;
  fail_argument(where, fmt::format("expected a name without '/'. Received: '{}'.", name));
}

std::uint64_t next_layer_seed() {
  const std::lock_guard lock(counters().mutex);
  return mix_keys(counters().seed, counters().layers++);
}

std::uint64_t mix_keys(std::uint64_t a, std::uint64_t b) {
  const std::array<std::uint32_t, 4> words = philox4x32(a, b, 0);
  return words[0] | static_cast<std::uint64_t>(words[1]) << 32;
}

std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace internal
}  // namespace demi
