#include "src/runtime/memory_pool.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include <demi/error.h>

#include "src/core/check.h"

namespace demi::runtime {
namespace {

/// Ranges begin at multiples of this many bytes, for any kernel's loads.
constexpr std::size_t kRange = 256;

std::size_t round_up(std::size_t bytes) {
  return std::max<std::size_t>(1, (bytes + kRange - 1) / kRange) * kRange;
}

/// "variable" of "variable conv2d/kernel".
std::string group_of(const std::string& purpose) {
  return purpose.starts_with("variable ") ? "variables" : purpose;
}

}  // namespace

/// A range of a region.
class MemoryPool::PooledMemory final : public DeviceMemory {
 public:
  PooledMemory(MemoryPool& pool, std::shared_ptr<Backend> backend,
               std::shared_ptr<DeviceMemory> region, std::size_t offset, std::size_t bytes,
               std::string purpose)
      : DeviceMemory(region->device(), static_cast<char*>(region->address()) + offset, bytes),
        pool_(pool),
        backend_(std::move(backend)),
        region_(std::move(region)),
        offset_(offset),
        purpose_(std::move(purpose)) {}
  ~PooledMemory() override {
    // What is queued may still use the range that somebody else is given next.
    try {
      backend_->synchronize();
    } catch (const DeviceError&) {
      // The device is lost; its memory is of no use to anybody.
    }
    const DeviceMemory* region = region_.get();
    region_.reset();
    pool_.give_back(region, offset_, bytes_, purpose_);
  }

  // The region's own copies wait only for the work of the backend that made it.
  void read(void* host, std::size_t offset, std::size_t count) const override {
    DEMI_CHECK(offset + count <= bytes_, "read past the end of a range of the pool");
    backend_->synchronize();
    region_->read(host, offset_ + offset, count);
  }
  void write(const void* host, std::size_t offset, std::size_t count) override {
    DEMI_CHECK(offset + count <= bytes_, "write past the end of a range of the pool");
    backend_->synchronize();
    region_->write(host, offset_ + offset, count);
  }

 private:
  MemoryPool& pool_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<DeviceMemory> region_;
  std::size_t offset_;
  std::string purpose_;
};

MemoryPool& MemoryPool::of(const std::string& device) {
  static std::mutex mutex;
  // Never destroyed: memory may be given back by objects that outlive main.
  static auto* pools = new std::map<std::string, MemoryPool*>();
  const std::lock_guard lock(mutex);
  MemoryPool*& pool = (*pools)[device];
  if (pool == nullptr) pool = new MemoryPool(device);
  return *pool;
}

void MemoryPool::configure(const memory::Options& options) {
  if (options.mode == memory::Mode::kFraction && !(options.fraction > 0 && options.fraction <= 1)) {
    internal::fail_argument(
        "memory", fmt::format("expected a fraction in (0, 1]. Received: {}.", options.fraction));
  }
  const std::lock_guard lock(mutex_);
  const bool same_mode = options.mode == options_.mode && options.fraction == options_.fraction;
  if (in_use_ > 0 && !same_mode) {
    internal::fail_argument(
        "memory", fmt::format("expected the mode of {} to be set before models use its memory. "
                              "Received: another one while {} bytes are in use.",
                              device_, in_use_));
  }
  if (!same_mode) {
    regions_.clear();
    reserved_ = 0;
  }
  if (options.limit_bytes > 0 && options.limit_bytes < reserved_) {
    internal::fail_argument(
        "memory", fmt::format("expected a limit of at least {} bytes, which are reserved on {}. "
                              "Received: {}.",
                              reserved_, device_, options.limit_bytes));
  }
  options_ = options;
}

std::size_t MemoryPool::most(std::size_t total) const {
  std::size_t most = total;
  if (options_.mode == memory::Mode::kFraction) {
    most = static_cast<std::size_t>(static_cast<double>(total) * options_.fraction);
  }
  if (options_.limit_bytes > 0 && (most == 0 || options_.limit_bytes < most)) {
    most = options_.limit_bytes;
  }
  return most;
}

std::size_t MemoryPool::limit(std::size_t total) const {
  const std::lock_guard lock(mutex_);
  return most(total);
}

std::shared_ptr<DeviceMemory> MemoryPool::allocate(const std::shared_ptr<Backend>& backend,
                                                   std::size_t bytes, const std::string& purpose) {
  const std::lock_guard lock(mutex_);
  const std::size_t range = round_up(bytes);
  Region* region = find_room(range);
  if (region == nullptr) region = &make_room(*backend, range, bytes, purpose);
  const std::size_t offset = take(*region, range);
  held_[group_of(purpose)] += bytes;
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  return std::make_shared<PooledMemory>(*this, backend, region->memory, offset, bytes, purpose);
}

MemoryPool::Region& MemoryPool::make_room(Backend& backend, std::size_t range, std::size_t bytes,
                                          const std::string& purpose) {
  const bool all_at_once = options_.mode == memory::Mode::kFraction;
  const bool is_limited = all_at_once || options_.limit_bytes > 0;
  const std::size_t allowed = is_limited ? most(backend.memory_info().total) : 0;
  const std::size_t wanted = all_at_once && regions_.empty() ? allowed : range;
  if (all_at_once && (!regions_.empty() || wanted < range)) {
    refuse(bytes, purpose, allowed, fmt::format("the fraction {}", options_.fraction));
  }
  if (is_limited && reserved_ + wanted > allowed) refuse(bytes, purpose, allowed, "the limit");
  return add_region(backend, wanted, purpose);
}

/// The free range that leaves the least.
MemoryPool::Region* MemoryPool::find_room(std::size_t bytes) {
  Region* best = nullptr;
  std::size_t smallest = 0;
  for (const auto& region : regions_) {
    for (const auto& [offset, free] : region->free) {
      if (free < bytes || (best != nullptr && free >= smallest)) continue;
      best = region.get();
      smallest = free;
    }
  }
  return best;
}

MemoryPool::Region& MemoryPool::add_region(Backend& backend, std::size_t bytes,
                                           const std::string& purpose) {
  auto region = std::make_unique<Region>();
  region->memory = backend.allocate(bytes, purpose);
  region->free[0] = bytes;
  reserved_ += bytes;
  regions_.push_back(std::move(region));
  return *regions_.back();
}

std::size_t MemoryPool::take(Region& region, std::size_t bytes) {
  auto best = region.free.end();
  for (auto range = region.free.begin(); range != region.free.end(); ++range) {
    if (range->second < bytes) continue;
    if (best == region.free.end() || range->second < best->second) best = range;
  }
  DEMI_CHECK(best != region.free.end(), "a region without room was chosen");
  const auto [offset, free] = *best;
  region.free.erase(best);
  if (free > bytes) region.free[offset + bytes] = free - bytes;
  return offset;
}

void MemoryPool::give_back(const DeviceMemory* memory, std::size_t offset, std::size_t bytes,
                           const std::string& purpose) {
  const std::lock_guard lock(mutex_);
  in_use_ -= bytes;
  const auto held = held_.find(group_of(purpose));
  if ((held->second -= bytes) == 0) held_.erase(held);
  const auto region = std::find_if(regions_.begin(), regions_.end(), [memory](const auto& other) {
    return other->memory.get() == memory;
  });
  std::map<std::size_t, std::size_t>& free = (*region)->free;
  auto range = free.emplace(offset, round_up(bytes)).first;
  const auto next = std::next(range);
  if (next != free.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free.erase(next);
  }
  if (range != free.begin()) {
    const auto previous = std::prev(range);
    if (previous->first + previous->second == range->first) {
      previous->second += range->second;
      free.erase(range);
      range = previous;
    }
  }
  const std::size_t size = (*region)->memory->bytes();
  if (options_.mode == memory::Mode::kExact && range->second == size) {
    reserved_ -= size;
    regions_.erase(region);
  }
}

std::string MemoryPool::largest() const {
  std::vector<std::pair<std::size_t, std::string>> entries;
  for (const auto& [purpose, bytes] : held_) entries.emplace_back(bytes, purpose);
  std::sort(entries.rbegin(), entries.rend());
  std::string text;
  for (const auto& [bytes, purpose] : entries) {
    text += fmt::format("{}{} {} bytes", text.empty() ? "" : ", ", purpose, bytes);
  }
  return text.empty() ? "nothing" : text;
}

void MemoryPool::refuse(std::size_t bytes, const std::string& purpose, std::size_t most,
                        const std::string& what) const {
  throw OutOfMemory(fmt::format(
      "[memory] could not allocate {} bytes for {}: {} allows {} bytes on {}, {} are reserved, of "
      "which {} are in use: {}. A smaller batch or a mixed policy needs less.",
      bytes, purpose, what, most, device_, reserved_, in_use_, largest()));
}

std::shared_ptr<MemoryPool::ShareHolder> MemoryPool::join() {
  auto holder = std::make_shared<ShareHolder>();
  const std::lock_guard lock(mutex_);
  std::erase_if(shares_, [](const auto& share) { return share.expired(); });
  shares_.push_back(holder);
  return holder;
}

memory::Stats MemoryPool::stats() const {
  const std::lock_guard lock(mutex_);
  memory::Stats stats;
  stats.device = device_;
  stats.in_use = in_use_;
  stats.peak = peak_;
  stats.reserved = reserved_;
  for (const auto& [purpose, bytes] : held_) stats.held.push_back({purpose, bytes});
  for (const auto& weak : shares_) {
    const std::shared_ptr<ShareHolder> holder = weak.lock();
    if (!holder) continue;
    stats.planned += holder->share.planned;
    stats.arena_planned += holder->share.arena_planned;
    stats.arena_peak += holder->share.arena_peak;
  }
  return stats;
}

void MemoryPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = in_use_;
}

}  // namespace demi::runtime
