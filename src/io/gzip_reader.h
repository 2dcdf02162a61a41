// GzipReader: the content of a file, whether it is stored plain or compressed by gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace demi::io {

/// Reads a file from front to back. A file that begins with gzip's magic number is decompressed on
/// the way, any other is read as it is.
class GzipReader {
 public:
  /// Throws std::runtime_error if the file cannot be opened.
  explicit GzipReader(const std::filesystem::path& path);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Reads until `count` bytes are there or the content ends; returns how many came. Throws
  /// std::runtime_error if the file cannot be read, std::invalid_argument if the compressed data
  /// are truncated, corrupt, or followed by something else.
  [[nodiscard]] std::size_t read(void* to, std::size_t count);

  /// No content of this file is longer: its size, or what the best compression would make of it.
  [[nodiscard]] std::uint64_t longest_possible_content() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace demi::io
