#include "src/io/idx.h"

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/file_content.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"

namespace demi::io {
namespace {

using demi::testing::content_of;
using demi::testing::message_of;
using demi::testing::put;
using demi::testing::TemporaryFolder;
using std::invalid_argument;
using std::runtime_error;

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string idx_header(const std::vector<std::uint32_t>& extents, char type = 8) {
  std::string bytes = {0, 0, type, static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents) bytes += big_endian(extent);
  return bytes;
}

/// A [2, 3, 2] file of the bytes 0 … 11, plain.
std::string small_file() {
  std::string bytes = idx_header({2, 3, 2});
  for (char i = 0; i < 12; ++i) bytes += i;
  return bytes;
}

std::string gzip(const std::string& content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string compressed(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

class Idx : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& content) { return put(path_, content); }

  /// The complaint about a file of this content, with the path replaced by "PATH".
  std::string complaint(const std::string& content) {
    std::string message =
        message_of<invalid_argument>([&] { static_cast<void>(read_idx(path(content))); });
    const std::size_t at = message.find(path_.string());
    if (at != std::string::npos) message.replace(at, path_.string().size(), "PATH");
    return message;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "images-idx3-ubyte";
};

TEST_F(Idx, ReadsPlainFiles) {
  const Tensor tensor = read_idx(path(small_file()));
  EXPECT_EQ(tensor.shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(tensor.dtype(), uint8);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(tensor.at(i), i);
}

TEST_F(Idx, ReadsCompressedFiles) {
  const Tensor tensor = read_idx(path(gzip(small_file())));
  EXPECT_EQ(tensor.shape(), (Shape{2, 3, 2}));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(tensor.at(i), i);
}

TEST_F(Idx, ReadsCompressedFilesLongerThanTheBuffers) {
  std::string content = idx_header({300, 1000});
  std::uint32_t state = 1;
  for (int i = 0; i < 300000; ++i) {
    state = state * 1664525u + 1013904223u;
    content += static_cast<char>(state >> 24);
  }
  const std::string half = gzip(content.substr(0, 150000));
  for (const std::string& file : {content, gzip(content), half + gzip(content.substr(150000))}) {
    const Tensor tensor = read_idx(path(file));
    const auto* bytes = static_cast<const char*>(tensor.raw());
    EXPECT_EQ(std::string(bytes, tensor.bytes()), content.substr(12));
  }
}

TEST_F(Idx, ReadsFilesWithoutElements) {
  EXPECT_EQ(read_idx(path(idx_header({0, 28, 28}))).shape(), (Shape{0, 28, 28}));
}

TEST_F(Idx, SaysThatAFileIsMissing) {
  EXPECT_EQ(message_of<runtime_error>([&] { static_cast<void>(read_idx(path_)); }),
            "[file] could not read '" + path_.string() + "': No such file or directory.");
  EXPECT_EQ(message_of<runtime_error>([&] { static_cast<void>(read_idx(folder_.path())); }),
            "[file] could not read '" + folder_.path().string() + "': Is a directory.");
}

TEST_F(Idx, RefusesOtherFiles) {
  EXPECT_EQ(complaint(""), "[idx] expected a header of 4 bytes in 'PATH'. Received: 0 bytes.");
  EXPECT_EQ(complaint("<html>not found</html>"),
            "[idx] expected an IDX file, which begins with two zero bytes in 'PATH'. Received: 3c "
            "68.");
  EXPECT_EQ(complaint(idx_header({3}, 0x0d)),
            "[idx] expected elements of type 0x08 (unsigned byte) in 'PATH'. Received: type 0x0d.");
  EXPECT_EQ(complaint(idx_header({})),
            "[idx] expected between 1 and 8 dimensions in 'PATH'. Received: 0.");
  EXPECT_EQ(complaint(idx_header({2, 3}).substr(0, 10)),
            "[idx] expected 2 extents in 'PATH'. Received: 1, then the end.");
}

TEST_F(Idx, RefusesTheWrongLength) {
  const std::string content = small_file();
  EXPECT_EQ(complaint(content.substr(0, content.size() - 3)),
            "[idx] expected the elements of [2, 3, 2], 12 bytes in 'PATH'. Received: 9 bytes.");
  EXPECT_EQ(complaint(content + "x"),
            "[idx] expected the elements of [2, 3, 2] and nothing after them in 'PATH'. Received: "
            "more bytes.");
  EXPECT_EQ(complaint(gzip(content + "x")),
            "[idx] expected the elements of [2, 3, 2] and nothing after them in 'PATH'. Received: "
            "more bytes.");
}

TEST_F(Idx, RefusesAHeaderThatPromisesTooMuch) {
  EXPECT_EQ(complaint(idx_header({0xffffffff, 0xffffffff, 0xffffffff}) + "few bytes"),
            "[idx] expected the elements of [4294967295, 4294967295, 4294967295] in 'PATH'. "
            "Received: a file that holds at most 25 bytes.");
  EXPECT_NE(complaint(gzip(idx_header({60000, 28, 28}))).find("holds at most"), std::string::npos);
}

TEST_F(Idx, EveryTruncationOfACompressedFileIsNoticed) {
  const std::string whole = gzip(small_file());
  for (std::size_t length = 2; length < whole.size(); ++length) {
    const std::string message = complaint(whole.substr(0, length));
    EXPECT_NE(message.find("[gzip] expected an intact gzip file 'PATH'. Received: one that ends "
                           "within the compressed data"),
              std::string::npos)
        << length << ": " << message;
  }
}

TEST_F(Idx, EveryFlippedByteOfACompressedFileIsNoticed) {
  const std::string whole = gzip(small_file());
  // Bytes 4 to 9 of the gzip header (time, flags of the compressor, system) do not matter.
  for (std::size_t at = 10; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    EXPECT_THROW(static_cast<void>(read_idx(path(damaged))), invalid_argument) << at;
  }
  std::string wrong_checksum = whole;
  wrong_checksum[whole.size() - 8] ^= 1;
  EXPECT_EQ(complaint(wrong_checksum),
            "[gzip] expected an intact gzip file 'PATH'. Received: corrupt data (incorrect data "
            "check), after 28 bytes of content.");
}

TEST_F(Idx, RefusesBytesAfterTheCompressedData) {
  EXPECT_EQ(complaint(gzip(small_file()) + "junk"),
            "[gzip] expected an intact gzip file 'PATH'. Received: other bytes after the "
            "compressed data, after 28 bytes of content.");
}

}  // namespace
}  // namespace demi::io
