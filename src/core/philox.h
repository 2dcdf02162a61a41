// Philox4x32-10: random numbers as a pure function of a key and a counter.
//
// The same on every machine, backend and thread count: word i of a stream is computed from i alone,
// never from a state that was advanced. Formula: Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace demi {

/// Four words of 32 random bits for the 128-bit counter {low, high} under `key`.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox4x32(std::uint64_t key,
                                                                std::uint64_t low,
                                                                std::uint64_t high) {
  std::uint32_t c0 = static_cast<std::uint32_t>(low);
  std::uint32_t c1 = static_cast<std::uint32_t>(low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(high);
  std::uint32_t c3 = static_cast<std::uint32_t>(high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(product1);
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(product0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// 32 random bits as a float in [0, 1), a multiple of 2^-24.
[[nodiscard]] constexpr float philox_uniform(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

/// The stream {key, high} read word by word; for code on the host that wants numbers in sequence.
class PhiloxStream {
 public:
  constexpr explicit PhiloxStream(std::uint64_t key, std::uint64_t high = 0)
      : key_(key), high_(high) {}

  [[nodiscard]] constexpr std::uint32_t next32() {
    const auto word = static_cast<std::size_t>(position_ % 4);
    if (word == 0) block_ = philox4x32(key_, position_ / 4, high_);
    ++position_;
    return block_[word];
  }

  [[nodiscard]] constexpr std::uint64_t next64() {
    const std::uint64_t low = next32();
    return low | (std::uint64_t{next32()} << 32);
  }

  /// Uniform in [0, 1) with 53 random bits.
  [[nodiscard]] constexpr double uniform() { return static_cast<double>(next64() >> 11) * 0x1p-53; }

  /// Uniform in [0, bound), without bias; bound ≥ 1.
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t bound) {
    // Draws below 2^64 mod bound would make the small remainders more likely than the others.
    const std::uint64_t skip = (std::uint64_t{0} - bound) % bound;
    std::uint64_t draw = next64();
    while (draw < skip) draw = next64();
    return draw % bound;
  }

 private:
  std::uint64_t key_;
  std::uint64_t high_;
  std::uint64_t position_ = 0;
  std::array<std::uint32_t, 4> block_{};
};

}  // namespace demi
