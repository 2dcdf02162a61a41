#include "src/io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace demi::io {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw std::runtime_error("[file] could not write '" + path.string() +
                           "': " + std::strerror(error) + ".");
}

/// A name that no other writer of `path`, in this process or another, uses.
std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  std::filesystem::path name = path;
  name += ".tmp." + std::to_string(getpid()) + "." + std::to_string(counter++);
  return name;
}

/// False with errno set on failure. Files that cannot be flushed (pipes, some network file systems)
/// answer EINVAL; there is nothing more to do for them.
bool flush_to_disk(int descriptor) {
  return fsync(descriptor) == 0 || errno == EINVAL;
}

/// Makes the rename itself survive a power failure.
void flush_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(path, errno);
  const int error = flush_to_disk(descriptor) ? 0 : errno;
  close(descriptor);
  if (error != 0) fail(path, error);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(temporary_name(path_)) {
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* bytes, std::size_t count) {
  const auto* next = static_cast<const std::byte*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(descriptor_, next, count);
    if (written >= 0) {
      next += written;
      count -= static_cast<std::size_t>(written);
    } else if (errno != EINTR) {
      fail(path_, errno);
    }
  }
}

void AtomicFile::commit() {
  if (!flush_to_disk(descriptor_)) fail(path_, errno);
  if (close(std::exchange(descriptor_, -1)) != 0) fail(path_, errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, errno);
  temporary_.clear();
  flush_folder_of(path_);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace demi::io
