// BatchLoader: copies the samples of an epoch, batch by batch, to where the step reads them.
//
// A thread of its own fills one of two buffers while the step works on the other: at most two
// batches are in memory, and the order of batches never depends on timing. A single batch is copied
// at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <demi/dataset.h>

namespace demi::internal {

/// Copies row rows[i] of `source` to the i-th row of `destination`.
void gather_rows(const Tensor& source, std::span<const std::int64_t> rows, void* destination);

/// Memory for one batch, one address for each array of the data set.
struct BatchBuffers {
  std::vector<void*> inputs;
  std::vector<void*> targets;
  /// For the numbers of the stored rows, which then go there instead of the rows themselves.
  std::int64_t* row_numbers = nullptr;
};

struct LoaderOptions {
  std::int64_t batch_size = 32;
  /// Order of the samples; empty: as they are.
  std::vector<std::int64_t> order = {};
  std::int64_t first_batch = 0;  ///< where to begin, for a run that resumes within an epoch
  std::int64_t last_batch = -1;  ///< one past the end; -1: all
  bool with_targets = true;
  /// Where batches of `rows` samples go; buffer is 0 or 1. Called on the loader's thread, if any.
  std::function<BatchBuffers(std::int64_t rows, int buffer)> buffers;
};

struct Batch {
  std::int64_t index = 0;  ///< within the epoch
  std::int64_t rows = 0;   ///< batch_size, or less for the last one
  int buffer = 0;
};

/// One epoch. Used from one thread.
class BatchLoader {
 public:
  /// Starts to fill the first two batches; fills the only one.
  BatchLoader(Dataset data, LoaderOptions options);
  /// Waits for the thread; batches not yet taken are dropped.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The next batch, waiting for it if need be; none at the end. The batch returned before may be
  /// overwritten from now on. Throws what filling the batch threw.
  [[nodiscard]] std::optional<Batch> next();

  /// Batches of an epoch: size / batch_size, rounded up.
  [[nodiscard]] static std::int64_t batch_count(std::int64_t size, std::int64_t batch_size) {
    return (size + batch_size - 1) / batch_size;
  }

 private:
  void fill_all();
  void fill(const Batch& batch, std::vector<std::int64_t>& rows) const;
  [[nodiscard]] Batch batch_at(std::int64_t index) const;

  Dataset data_;
  LoaderOptions options_;
  std::int64_t end_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t filled_ = 0;    ///< batches below this one are ready
  std::int64_t taken_ = 0;     ///< the next batch to hand out
  std::int64_t released_ = 0;  ///< batches below this one may be overwritten
  bool stop_ = false;
  std::exception_ptr error_;

  std::thread thread_;  // last, so that it sees everything else constructed
};

}  // namespace demi::internal
