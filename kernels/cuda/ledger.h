// Ledger: what device memory is held for, for the message of the allocation that fails.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace demi::cuda {

/// May be used from several threads.
class Ledger {
 public:
  void add(const std::string& purpose, std::size_t bytes);
  void remove(const std::string& purpose, std::size_t bytes);
  /// "arena 1048576 bytes, input buffers 8192 bytes": the five largest; "nothing" if there are
  /// none.
  [[nodiscard]] std::string largest() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::size_t> bytes_;
};

}  // namespace demi::cuda
