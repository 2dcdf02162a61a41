#include <cmath>
#include <iostream>
#include <utility>

#include <fmt/format.h>

#include <demi/callbacks.h>
#include <demi/model.h>

#include "src/core/check.h"

namespace demi {

LearningRateScheduler::LearningRateScheduler(Schedule schedule, bool verbose)
    : schedule_(std::move(schedule)), verbose_(verbose) {
  if (!schedule_) {
    internal::fail_argument("learning_rate_scheduler", "expected a function. Received: none.");
  }
}

void LearningRateScheduler::on_epoch_begin(int epoch) {
  const double rate = schedule_(epoch, model().optimizer().learning_rate());
  if (!(rate >= 0) || !std::isfinite(rate)) {
    internal::fail_argument("learning_rate_scheduler",
                            fmt::format("expected a finite learning rate >= 0 for epoch {}. "
                                        "Received: {}.",
                                        epoch, rate));
  }
  model().optimizer().set_learning_rate(rate);
  if (verbose_) std::cout << fmt::format("Epoch {}: learning rate {:g}\n", epoch + 1, rate);
}

void LearningRateScheduler::on_epoch_end(int /*epoch*/, Logs& logs) {
  logs.set("learning_rate", model().optimizer().learning_rate());
}

}  // namespace demi
