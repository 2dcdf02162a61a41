#include "src/training/dataset/batch_loader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace demi::internal {

void gather_rows(const Tensor& source, std::span<const std::int64_t> rows, void* destination) {
  const std::size_t bytes =
      static_cast<std::size_t>(source.shape().without_front().elements()) * size_of(source.dtype());
  if (bytes == 0) return;
  const auto* from = static_cast<const std::byte*>(source.raw());
  auto* to = static_cast<std::byte*>(destination);
  for (const std::int64_t row : rows) {
    std::memcpy(to, from + static_cast<std::size_t>(row) * bytes, bytes);
    to += bytes;
  }
}

BatchLoader::BatchLoader(Dataset data, LoaderOptions options)
    : data_(std::move(data)), options_(std::move(options)) {
  end_ = batch_count(data_.size(), options_.batch_size);
  if (options_.last_batch >= 0) end_ = std::min(end_, options_.last_batch);
  filled_ = taken_ = released_ = options_.first_batch;
  // Nothing to overlap with: waking a thread can take longer than predicting one sample.
  if (end_ - options_.first_batch <= 1) {
    fill_all();
  } else {
    thread_ = std::thread([this] { fill_all(); });
  }
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Batch BatchLoader::batch_at(std::int64_t index) const {
  const std::int64_t first = index * options_.batch_size;
  return {index, std::min(options_.batch_size, data_.size() - first), static_cast<int>(index % 2)};
}

std::optional<Batch> BatchLoader::next() {
  std::unique_lock lock(mutex_);
  released_ = taken_;
  changed_.notify_all();
  if (taken_ >= end_) return std::nullopt;
  changed_.wait(lock, [this] { return filled_ > taken_ || error_ != nullptr; });
  if (filled_ <= taken_) std::rethrow_exception(error_);
  return batch_at(taken_++);
}

void BatchLoader::fill_all() {
  try {
    std::vector<std::int64_t> rows;
    for (std::int64_t index = options_.first_batch; index < end_; ++index) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || index - released_ < 2; });
        if (stop_) return;
      }
      fill(batch_at(index), rows);
      {
        const std::lock_guard lock(mutex_);
        filled_ = index + 1;
      }
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

void BatchLoader::fill(const Batch& batch, std::vector<std::int64_t>& rows) const {
  rows.clear();
  const std::int64_t first = batch.index * options_.batch_size;
  for (std::int64_t i = first; i < first + batch.rows; ++i) {
    rows.push_back(
        data_.row(options_.order.empty() ? i : options_.order[static_cast<std::size_t>(i)]));
  }
  const BatchBuffers buffers = options_.buffers(batch.rows, batch.buffer);
  if (buffers.row_numbers != nullptr) {
    std::copy(rows.begin(), rows.end(), buffers.row_numbers);
    return;
  }
  for (std::size_t i = 0; i < data_.input_count(); ++i) {
    gather_rows(data_.input(i), rows, buffers.inputs.at(i));
  }
  if (!options_.with_targets) return;
  for (std::size_t i = 0; i < data_.target_count(); ++i) {
    gather_rows(data_.target(i), rows, buffers.targets.at(i));
  }
}

}  // namespace demi::internal
