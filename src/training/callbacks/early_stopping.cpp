#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <demi/callbacks.h>
#include <demi/model.h>

#include "src/core/check.h"
#include "src/training/callbacks/monitor.h"

namespace demi {

EarlyStopping::EarlyStopping(EarlyStoppingOptions options) : options_(std::move(options)) {
  if (!(options_.min_delta >= 0) || options_.patience < 0) {
    internal::fail_argument("early_stopping",
                            fmt::format("expected min_delta >= 0 and patience >= 0. Received: {} "
                                        "and {}.",
                                        options_.min_delta, options_.patience));
  }
}

void EarlyStopping::on_train_begin() {
  wait_ = 0;
  stopped_epoch_ = -1;
  best_epoch_ = -1;
  best_ = options_.baseline;
  best_weights_.reset();
}

void EarlyStopping::on_epoch_end(int epoch, Logs& logs) {
  const double value = logs.at(options_.monitor);
  if (epoch < options_.start_from_epoch) return;
  const bool larger = internal::larger_is_better(options_.monitor, options_.mode);
  if (internal::improves(value, best_, options_.min_delta, larger)) {
    best_ = value;
    best_epoch_ = epoch;
    wait_ = 0;
    if (options_.restore_best_weights) {
      best_weights_ = std::make_shared<const std::vector<Tensor>>(model().get_weights());
    }
    return;
  }
  ++wait_;
  if (wait_ < options_.patience) return;
  stopped_epoch_ = epoch;
  stop_training();
}

void EarlyStopping::on_train_end(const Logs& /*logs*/) {
  if (stopped_epoch_ >= 0 && options_.verbose) {
    std::cout << fmt::format("Epoch {}: early stopping\n", stopped_epoch_ + 1);
  }
  if (best_weights_ == nullptr) return;
  model().set_weights(*best_weights_);
  best_weights_.reset();
}

}  // namespace demi
