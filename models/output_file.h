// The files of results that --json and --html ask for.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace demi::models {

/// "" if `path` could be written now, else what stands in its way: a CLI11 validator, so that no
/// program trains for an hour and then has nowhere to put what it found. Leaves no trace.
[[nodiscard]] std::string check_output_file(const std::string& path);

/// Writes `text` beside `path` and renames it into place. Throws std::runtime_error.
void write_text(const std::filesystem::path& path, const std::string& text);
/// The same for `json`, indented.
void write_json(const std::filesystem::path& path, const nlohmann::json& json);

}  // namespace demi::models
