#include "src/training/memory/limits.h"

#include <algorithm>

#include "src/runtime/memory_pool.h"

namespace demi::internal {

std::size_t estimated_overhead(const std::string& device) {
  return device == "cpu" ? 0 : std::size_t{512} << 20;
}

MemoryLimit memory_limit(const Backend& backend, std::size_t asked) {
  const std::size_t total = backend.memory_info().total;
  const std::size_t overhead = estimated_overhead(backend.name());
  MemoryLimit limit{.bytes = total > overhead ? total - overhead : total,
                    .origin = "what " + backend.name() + " has for models"};
  const std::size_t pool = runtime::MemoryPool::of(backend.name()).limit(total);
  if (pool < limit.bytes) limit = {.bytes = pool, .origin = "what memory::configure allows"};
  if (asked > 0 && asked < limit.bytes) {
    limit = {.bytes = asked, .origin = "the limit given to compile"};
  }
  return limit;
}

}  // namespace demi::internal
