#include <cerrno>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <demi/callbacks.h>

#include "src/core/check.h"

namespace demi {

CSVLogger::CSVLogger(CSVLoggerOptions options) : options_(std::move(options)) {
  if (options_.filename.empty()) {
    internal::fail_argument("csv_logger", "expected a filename. Received: none.");
  }
}

void CSVLogger::on_train_begin() {
  std::error_code ignored;
  const bool goes_on =
      options_.append && std::filesystem::file_size(options_.filename, ignored) > 0 && !ignored;
  needs_header_ = !goes_on;
  keys_.clear();
  file_ = std::make_shared<std::ofstream>(options_.filename,
                                          options_.append ? std::ios::app : std::ios::trunc);
  if (!*file_) {
    throw std::runtime_error(fmt::format("[csv_logger] cannot open {} for writing: {}",
                                         options_.filename.string(),
                                         std::generic_category().message(errno)));
  }
}

void CSVLogger::on_epoch_end(int epoch, Logs& logs) {
  if (keys_.empty()) {
    for (const auto& [name, value] : logs) keys_.push_back(name);
  }
  std::string text;
  if (needs_header_) {
    text += "epoch";
    for (const std::string& key : keys_) text += options_.separator + key;
    text += '\n';
    needs_header_ = false;
  }
  text += std::to_string(epoch);
  for (const std::string& key : keys_) {
    const double* value = logs.find(key);
    text += options_.separator;
    text += value == nullptr ? "nan" : fmt::format("{}", *value);
  }
  text += '\n';
  *file_ << text << std::flush;
  if (!*file_) {
    throw std::runtime_error(
        fmt::format("[csv_logger] cannot write to {}", options_.filename.string()));
  }
}

void CSVLogger::on_train_end(const Logs& /*logs*/) {
  file_.reset();
}

}  // namespace demi
