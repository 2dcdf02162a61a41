#include <iostream>
#include <utility>

#include <fmt/args.h>
#include <fmt/format.h>

#include <demi/callbacks.h>
#include <demi/model.h>

#include "src/core/check.h"
#include "src/training/callbacks/monitor.h"

namespace demi {
namespace {

/// `pattern` with {epoch} and {<logged name>} replaced.
std::string fill_in(const std::string& pattern, int epoch, const Logs& logs) {
  fmt::dynamic_format_arg_store<fmt::format_context> values;
  values.push_back(fmt::arg("epoch", epoch + 1));
  for (const auto& [name, value] : logs) values.push_back(fmt::arg(name.c_str(), value));
  try {
    return fmt::vformat(pattern, values);
  } catch (const fmt::format_error& error) {
    internal::fail_argument("model_checkpoint",
                            "expected a file path in which {epoch} and the names of logged values "
                            "stand in braces. Received: '" +
                                pattern + "' (" + error.what() + ").");
  }
}

}  // namespace

ModelCheckpoint::ModelCheckpoint(ModelCheckpointOptions options) : options_(std::move(options)) {
  if (options_.filepath.empty()) {
    internal::fail_argument("model_checkpoint", "expected a filepath. Received: none.");
  }
  if (options_.save_every_epochs < 1) {
    internal::fail_argument(
        "model_checkpoint",
        fmt::format("expected save_every_epochs >= 1. Received: {}.", options_.save_every_epochs));
  }
}

void ModelCheckpoint::on_epoch_end(int epoch, Logs& logs) {
  if (options_.save_best_only) {
    const double value = logs.at(options_.monitor);
    const bool larger = internal::larger_is_better(options_.monitor, options_.mode);
    if (!internal::improves(value, best_, 0, larger)) return;
    best_ = value;
  } else if ((epoch + 1) % options_.save_every_epochs != 0) {
    return;
  }
  const std::string path = fill_in(options_.filepath, epoch, logs);
  if (options_.save_weights_only) {
    model().save_weights(path);
  } else {
    model().save_checkpoint(path);
  }
  last_saved_ = path;
  if (options_.verbose) std::cout << fmt::format("Epoch {}: saved {}\n", epoch + 1, path);
}

}  // namespace demi
