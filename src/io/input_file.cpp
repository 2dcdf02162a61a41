#include "src/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace demi::io {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw std::runtime_error("[file] could not read '" + path.string() +
                           "': " + std::strerror(error) + ".");
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail(path_, errno);
  struct stat status {};
  const bool known = fstat(descriptor_, &status) == 0;
  const int error = !known ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
  if (error != 0) {
    close(descriptor_);
    fail(path_, error);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  close(descriptor_);
}

std::size_t InputFile::read(void* to, std::size_t count) {
  auto* bytes = static_cast<std::byte*>(to);
  std::size_t done = 0;
  while (done < count) {
    const ssize_t received = ::read(descriptor_, bytes + done, count - done);
    if (received == 0) break;
    if (received > 0) {
      done += static_cast<std::size_t>(received);
    } else if (errno != EINTR) {
      fail(path_, errno);
    }
  }
  return done;
}

}  // namespace demi::io
