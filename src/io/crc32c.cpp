#include "src/io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

namespace demi::io {
namespace {

/// Bytes that one look into the tables deals with.
constexpr std::size_t kSlice = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlice>;

/// tables[k][b]: the checksum of byte b followed by k zero bytes ("slicing by 8").
constexpr Tables make_tables() {
  constexpr std::uint32_t kReflectedPolynomial = 0x82F63B78;
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) * kReflectedPolynomial);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < kSlice; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

/// `crc` after the kSlice bytes at `next`.
std::uint32_t after_slice(std::uint32_t crc, const unsigned char* next) {
#if defined(__SSE4_2__)
  std::uint64_t slice;
  std::memcpy(&slice, next, sizeof(slice));
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, slice));
#else
  std::uint32_t sliced = 0;
  for (std::size_t i = 0; i < kSlice; ++i) {
    const std::uint32_t byte = next[i] ^ (i < 4 ? (crc >> (8 * i)) & 0xFF : 0);
    sliced ^= kTables[kSlice - 1 - i][byte];
  }
  return sliced;
#endif
}

}  // namespace

std::uint32_t crc32c(const void* bytes, std::size_t count, std::uint32_t before) {
  const auto* next = static_cast<const unsigned char*>(bytes);
  std::uint32_t crc = ~before;
  for (; count >= kSlice; count -= kSlice, next += kSlice) crc = after_slice(crc, next);
  for (; count > 0; --count, ++next) crc = (crc >> 8) ^ kTables[0][(crc ^ *next) & 0xFF];
  return ~crc;
}

}  // namespace demi::io
