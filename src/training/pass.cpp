#include "src/training/pass.h"

#include <algorithm>
#include <utility>

#include "src/core/check.h"

namespace demi::internal {

Pass::Pass(Trainer& trainer, StepMode mode, Dataset data, std::int64_t batch_size,
           std::int64_t max_steps, const std::string& where, DataPlace place)
    : data_(std::move(data)), mode_(mode), batch_size_(batch_size) {
  if (batch_size_ < 1) {
    fail_argument(where,
                  "expected a batch size >= 1. Received: " + std::to_string(batch_size_) + ".");
  }
  steps_ = BatchLoader::batch_count(data_.size(), batch_size_);
  if (max_steps > 0) steps_ = std::min(steps_, max_steps);
  const std::int64_t whole_batches = data_.size() / batch_size_;
  // The smaller one first, so that the larger one can make do with what is left.
  if (steps_ > whole_batches) {
    rest_ = trainer.program(mode_, data_, data_.size() % batch_size_, where, place);
  }
  if (std::min(steps_, whole_batches) > 0) {
    whole_ = trainer.program(mode_, data_, batch_size_, where, place);
  }
}

std::int64_t Pass::samples() const {
  return std::min(data_.size(), steps_ * batch_size_);
}

std::unique_ptr<BatchLoader> Pass::load(std::vector<std::int64_t> order,
                                        std::int64_t first_step) const {
  auto buffers = [this](std::int64_t rows, int buffer) {
    Program& program = rows == batch_size_ ? *whole_ : *rest_;
    BatchBuffers result;
    if (program.spec().gathers_rows()) {
      result.row_numbers = program.row_numbers(buffer);
      return result;
    }
    for (std::size_t i = 0; i < program.spec().inputs.size(); ++i) {
      result.inputs.push_back(program.input(i, buffer));
    }
    for (std::size_t i = 0; i < program.spec().targets.size(); ++i) {
      result.targets.push_back(program.target(i, buffer));
    }
    return result;
  };
  return std::make_unique<BatchLoader>(data_,
                                       LoaderOptions{.batch_size = batch_size_,
                                                     .order = std::move(order),
                                                     .first_batch = first_step,
                                                     .last_batch = steps_,
                                                     .with_targets = mode_ != StepMode::kPredict,
                                                     .buffers = std::move(buffers)});
}

Program& Pass::program(const Batch& batch) const {
  return batch.rows == batch_size_ ? *whole_ : *rest_;
}

}  // namespace demi::internal
