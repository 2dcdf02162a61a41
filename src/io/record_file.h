// TFRecord files: records of bytes, one behind the other, each with checksums.
//
// Layout of a record, numbers little-endian: its length as uint64, the masked CRC-32C of these 8
// bytes, the bytes, their masked CRC-32C. masked(c) = (c >> 15 | c << 17) + 0xA282EAD8.
// (tensorflow/core/lib/io/record_writer.h)
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "src/io/input_file.h"

namespace demi::io {

/// Appends records to a new file. What a reader finds is always a sequence of complete records: a
/// record that could not be written whole is taken back.
class RecordWriter {
 public:
  /// Throws std::runtime_error with the path and the system's reason, also if the file exists.
  explicit RecordWriter(std::filesystem::path path);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// Keeps the record in memory until flush().
  void add(std::string_view record);
  /// Writes what was added to the file. Throws std::runtime_error with the path and the system's
  /// reason; the records since the last flush are then lost and the file is as it was before.
  void flush();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;  ///< of the complete records in the file
  std::string pending_;
};

/// Reads records from front to back.
class RecordReader {
 public:
  /// Throws std::runtime_error if the file cannot be opened.
  explicit RecordReader(const std::filesystem::path& path) : file_(path) {}

  /// The next record, nullopt at the end of the file. Throws std::invalid_argument, with the path,
  /// the number of complete records and the byte where they end, if the file is truncated or a
  /// checksum is wrong; std::runtime_error if it cannot be read.
  [[nodiscard]] std::optional<std::string> next();

 private:
  [[noreturn]] void refuse(const std::string& what) const;

  InputFile file_;
  std::uint64_t position_ = 0;
  std::int64_t records_ = 0;
};

}  // namespace demi::io
