#include "src/io/idx.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/io/gzip_reader.h"

namespace demi::io {
namespace {

constexpr unsigned char kUnsignedByte = 0x08;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& expected,
                       const std::string& received) {
  internal::fail_argument(
      "idx", fmt::format("expected {} in '{}'. Received: {}.", expected, path.string(), received));
}

Shape read_header(GzipReader& reader, const std::filesystem::path& path) {
  std::array<unsigned char, 4> magic{};
  const std::size_t received = reader.read(magic.data(), magic.size());
  if (received < magic.size()) {
    fail(path, "a header of 4 bytes", fmt::format("{} bytes", received));
  }
  if (magic[0] != 0 || magic[1] != 0) {
    fail(path, "an IDX file, which begins with two zero bytes",
         fmt::format("{:02x} {:02x}", magic[0], magic[1]));
  }
  if (magic[2] != kUnsignedByte) {
    fail(path, "elements of type 0x08 (unsigned byte)", fmt::format("type 0x{:02x}", magic[2]));
  }
  if (magic[3] == 0 || magic[3] > Shape::kMaxRank) {
    fail(path, fmt::format("between 1 and {} dimensions", Shape::kMaxRank),
         std::to_string(magic[3]));
  }
  std::vector<std::int64_t> extents;
  for (int axis = 0; axis < magic[3]; ++axis) {
    std::array<unsigned char, 4> bytes{};
    if (reader.read(bytes.data(), bytes.size()) < bytes.size()) {
      fail(path, fmt::format("{} extents", magic[3]), fmt::format("{}, then the end", axis));
    }
    extents.push_back(std::int64_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3]);
  }
  return Shape(extents);
}

/// Refuses a header that promises more elements than any file of this size holds. Done before the
/// allocation, so that a damaged header is not reported as a lack of memory.
void check_size(const Shape& shape, const std::filesystem::path& path, std::uint64_t longest) {
  std::uint64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent > 0 && elements > longest / static_cast<std::uint64_t>(extent)) {
      fail(path, "the elements of " + shape.to_string(),
           fmt::format("a file that holds at most {} bytes", longest));
    }
    elements *= static_cast<std::uint64_t>(extent);
  }
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path) {
  GzipReader reader(path);
  const Shape shape = read_header(reader, path);
  const std::string expected = "the elements of " + shape.to_string();
  check_size(shape, path, reader.longest_possible_content());
  Tensor tensor(shape, uint8);
  const std::size_t received = reader.read(tensor.raw(), tensor.bytes());
  if (received < tensor.bytes()) {
    fail(path, fmt::format("{}, {} bytes", expected, tensor.bytes()),
         fmt::format("{} bytes", received));
  }
  unsigned char extra = 0;
  if (reader.read(&extra, 1) != 0) fail(path, expected + " and nothing after them", "more bytes");
  return tensor;
}

}  // namespace demi::io
