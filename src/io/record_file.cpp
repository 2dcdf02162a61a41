#include "src/io/record_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/io/crc32c.h"

namespace demi::io {
namespace {

static_assert(std::endian::native == std::endian::little, "records are copied as they are");

constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kFooterBytes = 4;

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw std::runtime_error(
      fmt::format("[records] could not write '{}': {}.", path.string(), std::strerror(error)));
}

std::uint32_t masked_crc(const void* bytes, std::size_t count) {
  return std::rotr(crc32c(bytes, count), 15) + 0xA282EAD8u;
}

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class T>
T number_at(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

}  // namespace

RecordWriter::RecordWriter(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path_, errno);
}

RecordWriter::~RecordWriter() {
  close(descriptor_);
}

void RecordWriter::add(std::string_view record) {
  const auto length = static_cast<std::uint64_t>(record.size());
  append(pending_, length);
  append(pending_, masked_crc(&length, sizeof(length)));
  pending_ += record;
  append(pending_, masked_crc(record.data(), record.size()));
}

void RecordWriter::flush() {
  const std::string bytes = std::exchange(pending_, {});
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      const int error = errno;
      // If even this fails, readers refuse the incomplete record at the end, and only that.
      (void)!ftruncate(descriptor_, size_);
      fail(path_, error);
    }
  }
  size_ += static_cast<std::int64_t>(bytes.size());
}

void RecordReader::refuse(const std::string& what) const {
  internal::fail_argument(
      "records", fmt::format("expected complete records in '{}'. Received: {} behind record {}, at "
                             "byte {}.",
                             file_.path().string(), what, records_, position_));
}

std::optional<std::string> RecordReader::next() {
  std::array<char, kHeaderBytes> header;
  const std::size_t read = file_.read(header.data(), header.size());
  if (read == 0) return std::nullopt;
  if (read < header.size()) refuse("the beginning of a length");
  if (number_at<std::uint32_t>(&header[8]) != masked_crc(header.data(), 8)) {
    refuse("a length with a wrong checksum");
  }
  const auto length = number_at<std::uint64_t>(header.data());
  if (length > file_.size() - position_ || length + kHeaderBytes > file_.size() - position_) {
    refuse(fmt::format("a record of {} bytes in a file of {}", length, file_.size()));
  }
  std::string record(length + kFooterBytes, '\0');
  if (file_.read(record.data(), record.size()) < record.size()) {
    refuse(fmt::format("a truncated record of {} bytes", length));
  }
  if (number_at<std::uint32_t>(&record[length]) != masked_crc(record.data(), length)) {
    refuse("a record with a wrong checksum");
  }
  record.resize(length);
  position_ += kHeaderBytes + length + kFooterBytes;
  ++records_;
  return record;
}

}  // namespace demi::io
