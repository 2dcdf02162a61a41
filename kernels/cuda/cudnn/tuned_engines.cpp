#include "kernels/cuda/cudnn/tuned_engines.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace demi::cuda::cudnn {
namespace {

namespace fs = std::filesystem;

/// FNV-1a: file names must not change from build to build, as std::hash may.
std::uint64_t hash(const std::string& text) {
  std::uint64_t value = 14695981039346656037U;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return value;
}

void report(const char* action, const fs::path& file, const std::string& why) {
  std::fprintf(stderr, "[cudnn] %s %s: %s\n", action, file.c_str(), why.c_str());
}

}  // namespace

TunedEngines::TunedEngines(fs::path folder) : folder_(std::move(folder)) {}

fs::path TunedEngines::default_folder() {
  if (const char* folder = std::getenv("DEMI_CACHE_DIR")) {
    return *folder == '\0' ? fs::path() : fs::path(folder) / "cudnn";
  }
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return fs::path(cache) / "demi" / "cudnn";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return fs::path(home) / ".cache" / "demi" / "cudnn";
  return {};
}

fs::path TunedEngines::file_of(const std::string& key) const {
  return folder_ / fmt::format("{:016x}.json", hash(key));
}

std::optional<EngineChoice> TunedEngines::find(const std::string& key) {
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  if (folder_.empty()) return std::nullopt;
  const fs::path file = file_of(key);
  std::ifstream stream(file);
  if (!stream) return std::nullopt;
  try {
    const nlohmann::json json = nlohmann::json::parse(stream);
    // Another key of the same hash.
    if (json.at("key").get<std::string>() != key) return std::nullopt;
    EngineChoice choice;
    choice.engine = json.at("engine").get<std::int64_t>();
    choice.knobs = json.at("knobs").get<decltype(choice.knobs)>();
    return known_[key] = choice;
  } catch (const nlohmann::json::exception& error) {
    report("ignoring", file, error.what());
    return std::nullopt;
  }
}

void TunedEngines::keep(const std::string& key, const EngineChoice& choice) {
  known_[key] = choice;
  if (folder_.empty()) return;
  const fs::path file = file_of(key);
  const fs::path temporary = file.string() + "." + std::to_string(getpid()) + ".tmp";
  try {
    fs::create_directories(folder_);
    std::ofstream stream(temporary);
    stream << nlohmann::json{{"key", key}, {"engine", choice.engine}, {"knobs", choice.knobs}}
           << '\n';
    stream.close();
    if (!stream) throw std::runtime_error("it cannot be written");
    fs::rename(temporary, file);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    report("not keeping the measured engine in", file, error.what());
  }
}

}  // namespace demi::cuda::cudnn
