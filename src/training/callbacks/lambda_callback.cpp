#include <utility>

#include <demi/callbacks.h>

namespace demi {

LambdaCallback::LambdaCallback(LambdaCallbackOptions options) : options_(std::move(options)) {}

void LambdaCallback::on_train_begin() {
  if (options_.on_train_begin) options_.on_train_begin();
}

void LambdaCallback::on_train_end(const Logs& logs) {
  if (options_.on_train_end) options_.on_train_end(logs);
}

void LambdaCallback::on_epoch_begin(int epoch) {
  if (options_.on_epoch_begin) options_.on_epoch_begin(epoch);
}

void LambdaCallback::on_epoch_end(int epoch, Logs& logs) {
  if (options_.on_epoch_end) options_.on_epoch_end(epoch, logs);
}

void LambdaCallback::on_train_batch_begin(std::int64_t batch) {
  if (options_.on_train_batch_begin) options_.on_train_batch_begin(batch);
}

void LambdaCallback::on_train_batch_end(std::int64_t batch, const BatchLogs& logs) {
  if (options_.on_train_batch_end) options_.on_train_batch_end(batch, logs);
}

void LambdaCallback::on_step_skipped(std::int64_t step, double scale) {
  if (options_.on_step_skipped) options_.on_step_skipped(step, scale);
}

}  // namespace demi
