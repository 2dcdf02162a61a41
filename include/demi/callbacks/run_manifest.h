// RunManifest: a callback that writes down what a training run was made of.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include <demi/callbacks.h>
#include <demi/config.h>

namespace demi {

struct RunManifestOptions {
  std::filesystem::path filename = {};  ///< of the JSON file; empty: none, see manifest()
};

/// Writes a JSON file with all that is needed to do a run again: the model's configuration, policy,
/// optimizer and loss scaling, losses and metrics, batch size and epochs, seeds, a checksum of the
/// training and validation data, the device, library versions and demi's git revision. At the end
/// come "status" ("completed", or "failed" with "error"), "results" (the last epoch's values,
/// steps, skipped steps, loss scale) and "timing". `demi diff a.json b.json` compares two of them.
///
/// Models with layers that have no configuration have "model": null.
class RunManifest : public Callback {
 public:
  explicit RunManifest(RunManifestOptions options = {});

  /// Writes the file, with "status": "running". Throws std::runtime_error if it cannot be written,
  /// so that fit fails before training.
  void on_train_begin() override;
  /// A file that cannot be written now is a line on stderr, and error(); fit goes on.
  void on_train_end(const Logs& logs) override;
  void on_train_failed(const std::exception& error) override;

  /// Of the last fit, as in the file; null before.
  [[nodiscard]] const Config& manifest() const { return manifest_; }
  /// Why the file does not have the end of the run; empty if it has.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  void finish();

  RunManifestOptions options_;
  Config manifest_;
  std::string error_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace demi
