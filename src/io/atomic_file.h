// AtomicFile: a file that appears under its name complete, or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace demi::io {

/// Writes beside `path` under a temporary name; `commit` flushes to the disk and renames. Until
/// then, and whenever something fails, what stood under `path` is untouched and the temporary file
/// goes away with the object. Every member throws std::runtime_error with the path and the system's
/// reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Makes the file durable and visible. Nothing may be written afterwards.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// The whole of `text` as the file `path`, by way of an AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace demi::io
