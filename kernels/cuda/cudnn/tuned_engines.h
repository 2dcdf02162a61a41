// TunedEngines: which engine was the fastest, remembered from process to process.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "kernels/cuda/cudnn/plan.h"

namespace demi::cuda::cudnn {

/// Choices by key. A key says everything a choice depends on. They are kept in memory and, one file
/// per key, in a folder: <hash of the key>.json with {"key", "engine", "knobs": [[type, value]]}.
/// Files appear complete (written beside, then renamed), so processes may share the folder. A file
/// that cannot be read or written is reported on stderr and otherwise ignored.
class TunedEngines {
 public:
  /// An empty folder: in memory only. The folder is created when it is first needed.
  explicit TunedEngines(std::filesystem::path folder = default_folder());

  /// DEMI_CACHE_DIR if that is set, be it empty; else $XDG_CACHE_HOME/demi, else ~/.cache/demi; in
  /// them "cudnn".
  [[nodiscard]] static std::filesystem::path default_folder();

  [[nodiscard]] std::optional<EngineChoice> find(const std::string& key);
  void keep(const std::string& key, const EngineChoice& choice);

 private:
  [[nodiscard]] std::filesystem::path file_of(const std::string& key) const;

  std::filesystem::path folder_;
  std::map<std::string, EngineChoice> known_;
};

}  // namespace demi::cuda::cudnn
