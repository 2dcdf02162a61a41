#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <demi/callbacks.h>

#include "src/core/check.h"

namespace demi {
namespace {

template <class Entries>
std::string names_of(const Entries& entries) {
  std::string names;
  for (const auto& [name, value] : entries) names += (names.empty() ? "'" : ", '") + name + "'";
  return names.empty() ? "nothing" : names;
}

}  // namespace

void Logs::set(std::string_view name, double value) {
  const auto same_name = [&](const Entry& entry) { return entry.first == name; };
  const auto found = std::find_if(entries_.begin(), entries_.end(), same_name);
  if (found != entries_.end()) {
    found->second = value;
  } else {
    entries_.emplace_back(name, value);
  }
}

const double* Logs::find(std::string_view name) const {
  const auto same_name = [&](const Entry& entry) { return entry.first == name; };
  const auto found = std::find_if(entries_.begin(), entries_.end(), same_name);
  return found == entries_.end() ? nullptr : &found->second;
}

double Logs::at(std::string_view name) const {
  if (const double* value = find(name)) return *value;
  internal::fail_argument("logs", "expected one of the logged values " + names_of(entries_) +
                                      ". Received: '" + std::string(name) + "'.");
}

const Logs& BatchLogs::values() const {
  if (!is_read_) values_ = read_();
  is_read_ = true;
  return values_;
}

const TrainingControl& Callback::control() const {
  if (control_ == nullptr) {
    internal::fail_argument("callback",
                            "expected to be asked within fit or evaluate. Received: a call "
                            "outside.");
  }
  return *control_;
}

Model& Callback::model() const {
  return *control().model;
}

const TrainingParameters& Callback::parameters() const {
  return control().parameters;
}

TrainingStatus Callback::status() const {
  return control().status();
}

void Callback::stop_training() const {
  (void)control();
  control_->stop = true;
}

CallbackList::CallbackList(const std::vector<CallbackHandle>& callbacks, TrainingControl* control) {
  for (const CallbackHandle& handle : callbacks) {
    if (handle.get() == nullptr) {
      internal::fail_argument("callbacks", "expected callbacks. Received: a null pointer.");
    }
    callbacks_.push_back(handle.get());
  }
  for (const auto& callback : callbacks_) callback->control_ = control;
}

CallbackList::~CallbackList() {
  for (const auto& callback : callbacks_) callback->control_ = nullptr;
}

void CallbackList::train_begin() const {
  for (const auto& callback : callbacks_) callback->on_train_begin();
}

void CallbackList::train_end(const Logs& logs) const {
  for (const auto& callback : callbacks_) callback->on_train_end(logs);
}

void CallbackList::train_failed(const std::exception& error) const noexcept {
  for (const auto& callback : callbacks_) {
    try {
      callback->on_train_failed(error);
    } catch (const std::exception&) {
      // The error that ends training is the one to be told.
      continue;
    }
  }
}

void CallbackList::epoch_begin(int epoch) const {
  for (const auto& callback : callbacks_) callback->on_epoch_begin(epoch);
}

void CallbackList::epoch_end(int epoch, Logs& logs) const {
  for (const auto& callback : callbacks_) callback->on_epoch_end(epoch, logs);
}

void CallbackList::train_batch_begin(std::int64_t batch) const {
  for (const auto& callback : callbacks_) callback->on_train_batch_begin(batch);
}

void CallbackList::train_batch_end(std::int64_t batch, const BatchLogs& logs) const {
  for (const auto& callback : callbacks_) callback->on_train_batch_end(batch, logs);
}

void CallbackList::test_begin() const {
  for (const auto& callback : callbacks_) callback->on_test_begin();
}

void CallbackList::test_end(const Logs& logs) const {
  for (const auto& callback : callbacks_) callback->on_test_end(logs);
}

void CallbackList::step_skipped(std::int64_t step, double scale) const {
  for (const auto& callback : callbacks_) callback->on_step_skipped(step, scale);
}

bool CallbackList::non_finite_loss(std::int64_t step) const {
  bool handled = false;
  for (const auto& callback : callbacks_) handled = callback->on_non_finite_loss(step) || handled;
  return handled;
}

void History::add(int epoch_index, const Logs& logs) {
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, value] : logs) {
    std::vector<double>& values = history[name];
    values.resize(epoch.size(), kMissing);
    values.push_back(value);
  }
  epoch.push_back(epoch_index);
  for (auto& [name, values] : history) values.resize(epoch.size(), kMissing);
}

double History::last(std::string_view name) const {
  const auto found = history.find(name);
  if (found != history.end() && !found->second.empty()) return found->second.back();
  internal::fail_argument("history", "expected one of the logged values " + names_of(history) +
                                         ". Received: '" + std::string(name) + "'.");
}

}  // namespace demi
