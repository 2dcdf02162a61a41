#include "kernels/cuda/ledger.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace demi::cuda {

void Ledger::add(const std::string& purpose, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_[purpose] += bytes;
}

void Ledger::remove(const std::string& purpose, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if ((bytes_[purpose] -= bytes) == 0) bytes_.erase(purpose);
}

std::string Ledger::largest() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::size_t, std::string>> entries;
  for (const auto& [purpose, bytes] : bytes_) entries.emplace_back(bytes, purpose);
  std::sort(entries.rbegin(), entries.rend());
  if (entries.size() > 5) entries.resize(5);
  std::string text;
  for (const auto& [bytes, purpose] : entries) {
    text += (text.empty() ? "" : ", ") + purpose + " " + std::to_string(bytes) + " bytes";
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace demi::cuda
