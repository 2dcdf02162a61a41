// Pass: one way through a data set, batch by batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <demi/dataset.h>

#include "src/training/dataset/batch_loader.h"
#include "src/training/trainer.h"

namespace demi::internal {

/// Holds a program for whole batches and one for the samples that are left at the end; both are
/// compiled by the constructor, so that no step waits for a compilation.
class Pass {
 public:
  /// At most `max_steps` batches; 0: all. DataPlace::kDevice is for data that
  /// Trainer::keep_on_device was given last. Throws std::invalid_argument "[where] …" for a batch
  /// size below 1.
  Pass(Trainer& trainer, StepMode mode, Dataset data, std::int64_t batch_size,
       std::int64_t max_steps, const std::string& where, DataPlace place = DataPlace::kHost);

  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] std::int64_t batch_size() const { return batch_size_; }
  [[nodiscard]] const Dataset& data() const { return data_; }
  /// Samples in all steps.
  [[nodiscard]] std::int64_t samples() const;

  /// Begins to load the batches from `first_step` on. `order` as in LoaderOptions.
  [[nodiscard]] std::unique_ptr<BatchLoader> load(std::vector<std::int64_t> order = {},
                                                  std::int64_t first_step = 0) const;
  /// The program for a batch of that loader.
  [[nodiscard]] Program& program(const Batch& batch) const;

 private:
  Dataset data_;
  StepMode mode_;
  std::int64_t batch_size_;
  std::int64_t steps_;
  std::shared_ptr<Program> whole_;  ///< null without a whole batch
  std::shared_ptr<Program> rest_;   ///< null if the batch size divides the data
};

}  // namespace demi::internal
