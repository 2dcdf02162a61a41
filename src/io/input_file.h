// InputFile: a file open for reading, with errors that name it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace demi::io {

/// Owns an open file.
class InputFile {
 public:
  /// Throws std::runtime_error with the path and the system's reason.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Reads until `count` bytes are there or the file ends; returns how many came. Throws
  /// std::runtime_error.
  [[nodiscard]] std::size_t read(void* to, std::size_t count);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Bytes of the file when it was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace demi::io
