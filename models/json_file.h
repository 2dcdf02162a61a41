// The file of results that --json asks for.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace demi::models {

/// "" if write_json could write `path` now, else what stands in its way: a CLI11 validator, so that
/// no program trains for an hour and then has nowhere to put what it found. Leaves no trace.
[[nodiscard]] std::string check_json_file(const std::string& path);

/// Writes `json` beside `path` and renames it into place. Throws std::runtime_error.
void write_json(const std::filesystem::path& path, const nlohmann::json& json);

}  // namespace demi::models
