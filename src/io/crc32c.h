// CRC-32C: the checksum of TFRecord files, and a fingerprint of data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace demi::io {

/// CRC-32 with Castagnoli's polynomial 0x1EDC6F41, reflected (RFC 3720, appendix B.4). `before` is
/// the checksum of the bytes in front of these: crc32c(b, n, crc32c(a, m)) is that of a and b.
[[nodiscard]] std::uint32_t crc32c(const void* bytes, std::size_t count, std::uint32_t before = 0);

}  // namespace demi::io
