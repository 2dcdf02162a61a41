#include <demi/callbacks/run_manifest.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <stdexcept>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "src/io/atomic_file.h"
#include "src/training/run_description.h"

namespace demi {

RunManifest::RunManifest(RunManifestOptions options) : options_(std::move(options)) {}

void RunManifest::on_train_begin() {
  started_ = std::chrono::steady_clock::now();
  error_.clear();
  manifest_ = {};
  Config manifest = internal::describe_run(control());
  manifest.set("data", Config::object(
                           {{"training", internal::describe_data(*control().training_data)},
                            {"validation", internal::describe_data(*control().validation_data)}}));
  manifest.set("timing",
               Config::object({{"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                                       fmt::gmtime(std::time(nullptr)))}}));
  manifest.set("status", "running");
  if (!options_.filename.empty()) io::write_file(options_.filename, manifest.to_json(2) + "\n");
  manifest_ = std::move(manifest);
}

void RunManifest::on_train_end(const Logs& logs) {
  manifest_.set("status", "completed");
  const TrainingStatus now = status();
  Config results = Config::object();
  for (const auto& [name, value] : logs) {
    results.set(name, std::isfinite(value) ? Config(value) : Config());
  }
  results.set("steps", now.step);
  results.set("skipped_steps", now.skipped_steps);
  results.set("loss_scale", now.loss_scale);
  manifest_.set("results", results);
  finish();
}

void RunManifest::on_train_failed(const std::exception& error) {
  // Null if this is what has thrown.
  if (manifest_.is_null()) return;
  manifest_.set("status", "failed");
  manifest_.set("error", error.what());
  finish();
}

void RunManifest::finish() {
  const auto seconds = std::chrono::steady_clock::now() - started_;
  Config timing = manifest_.at("timing");
  timing.set("seconds", std::chrono::duration<double>(seconds).count());
  manifest_.set("timing", timing);
  if (options_.filename.empty()) return;
  try {
    io::write_file(options_.filename, manifest_.to_json(2) + "\n");
  } catch (const std::runtime_error& failure) {
    error_ = failure.what();
    std::cerr << fmt::format("[run_manifest] the end of the run is not in {}: {}\n",
                             options_.filename.string(), error_);
  }
}

}  // namespace demi
