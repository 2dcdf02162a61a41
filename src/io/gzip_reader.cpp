#include "src/io/gzip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "src/core/check.h"
#include "src/io/input_file.h"

namespace demi::io {
namespace {

/// inflateInit2's way to ask for a gzip header around a window of 2^15 bytes.
constexpr int kGzipWindow = 15 + 16;
/// A deflate block cannot say more than 1032 bytes with one.
constexpr std::uint64_t kBestCompression = 1032;

}  // namespace

struct GzipReader::State {
  explicit State(const std::filesystem::path& path) : file(path) {
    refill();
    compressed = stream.avail_in >= 2 && buffer[0] == 0x1f && buffer[1] == 0x8b;
    if (compressed) {
      DEMI_CHECK(inflateInit2(&stream, kGzipWindow) == Z_OK, "zlib could not be started");
    }
  }

  ~State() {
    if (compressed) inflateEnd(&stream);
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Puts the next bytes of the file into the empty buffer.
  void refill() {
    stream.next_in = buffer.data();
    stream.avail_in = static_cast<uInt>(file.read(buffer.data(), buffer.size()));
  }

  std::size_t read_plain(unsigned char* to, std::size_t count) {
    const std::size_t buffered = std::min<std::size_t>(count, stream.avail_in);
    std::memcpy(to, stream.next_in, buffered);
    stream.next_in += buffered;
    stream.avail_in -= static_cast<uInt>(buffered);
    return buffered + file.read(to + buffered, count - buffered);
  }

  std::size_t read_compressed(unsigned char* to, std::size_t count) {
    std::size_t done = 0;
    while (done < count && !finished) {
      if (stream.avail_in == 0) refill();
      if (stream.avail_in == 0) fail("one that ends within the compressed data");
      const std::size_t room =
          std::min<std::size_t>(count - done, std::numeric_limits<uInt>::max());
      stream.next_out = to + done;
      stream.avail_out = static_cast<uInt>(room);
      const int result = inflate(&stream, Z_NO_FLUSH);
      done += room - stream.avail_out;
      content += room - stream.avail_out;
      if (result == Z_STREAM_END) {
        start_next_member();
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        fail(std::string("corrupt data (") + (stream.msg != nullptr ? stream.msg : "no detail") +
             ")");
      }
    }
    return done;
  }

  /// gzip files may be joined end to end; anything else after a member is not gzip's.
  void start_next_member() {
    if (stream.avail_in == 0) refill();
    finished = stream.avail_in == 0;
    if (!finished && *stream.next_in != 0x1f) fail("other bytes after the compressed data");
    if (!finished) inflateReset(&stream);
  }

  [[noreturn]] void fail(const std::string& received) const {
    internal::fail_argument("gzip", "expected an intact gzip file '" + file.path().string() +
                                        "'. Received: " + received + ", after " +
                                        std::to_string(content) + " bytes of content.");
  }

  InputFile file;
  std::array<unsigned char, 1 << 16> buffer;
  z_stream stream{};
  bool compressed = false;
  bool finished = false;
  std::uint64_t content = 0;
};

GzipReader::GzipReader(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}

GzipReader::~GzipReader() = default;

std::size_t GzipReader::read(void* to, std::size_t count) {
  if (count == 0) return 0;
  auto* bytes = static_cast<unsigned char*>(to);
  return state_->compressed ? state_->read_compressed(bytes, count)
                            : state_->read_plain(bytes, count);
}

std::uint64_t GzipReader::longest_possible_content() const {
  return state_->compressed ? state_->file.size() * kBestCompression : state_->file.size();
}

}  // namespace demi::io
