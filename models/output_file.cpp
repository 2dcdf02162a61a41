#include "models/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <nlohmann/json.hpp>

namespace demi::models {
namespace {

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  return path.string() + ".tmp" + std::to_string(getpid());
}

void remove_quietly(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

std::string failure(const std::filesystem::path& path, int error) {
  return "cannot write '" + path.string() + "': " + std::strerror(error) + ".";
}

}  // namespace

std::string check_output_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return failure(path, EISDIR);
  const std::filesystem::path temporary = temporary_name(path);
  errno = 0;
  const bool created = std::ofstream(temporary).is_open();
  if (!created) return failure(path, errno);
  remove_quietly(temporary);
  return "";
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path temporary = temporary_name(path);
  errno = 0;
  std::ofstream file(temporary);
  file << text;
  file.close();
  if (!file) {
    const int error = errno;
    remove_quietly(temporary);
    throw std::runtime_error(failure(path, error));
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) {
    remove_quietly(temporary);
    throw std::runtime_error(failure(path, error.value()));
  }
}

void write_json(const std::filesystem::path& path, const nlohmann::json& json) {
  write_text(path, json.dump(2) + "\n");
}

}  // namespace demi::models
