// Dropout. See Note [Deterministic partitioning]: element i needs only i, so chunks are
// independent.

#include <demi/ops/dropout.h>

#include <algorithm>
#include <cmath>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/cpu/convert.h"
#include "kernels/cpu/registry.h"
#include "src/core/philox.h"

namespace demi::cpu {
namespace {

constexpr std::int64_t kChunk = 8192;
constexpr std::int64_t kBlock = 256;  // elements whose random words are drawn at once

#if defined(__AVX2__)
/// One word of four blocks: the low halves of the lanes. The high halves hold anything, since
/// _mm256_mul_epu32 does not look at them.
struct Words {
  __m256i c0, c1, c2, c3;
};

Words philox_rounds(Words w, std::uint64_t key) {
  const __m256i m0 = _mm256_set1_epi64x(0xD2511F53);
  const __m256i m1 = _mm256_set1_epi64x(0xCD9E8D57);
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m256i p0 = _mm256_mul_epu32(w.c0, m0);
    const __m256i p1 = _mm256_mul_epu32(w.c2, m1);
    const __m256i high0 = _mm256_srli_epi64(p0, 32);
    const __m256i high1 = _mm256_srli_epi64(p1, 32);
    w.c0 = _mm256_xor_si256(_mm256_xor_si256(high1, w.c1), _mm256_set1_epi64x(k0));
    w.c1 = p1;
    w.c2 = _mm256_xor_si256(_mm256_xor_si256(high0, w.c3), _mm256_set1_epi64x(k1));
    w.c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return w;
}

/// The words of the four blocks one block after the other.
void store_blocks(const Words& w, std::uint32_t* words) {
  const __m256i low = _mm256_set1_epi64x(0xffffffff);
  const __m256i a = _mm256_or_si256(_mm256_and_si256(w.c0, low), _mm256_slli_epi64(w.c1, 32));
  const __m256i b = _mm256_or_si256(_mm256_and_si256(w.c2, low), _mm256_slli_epi64(w.c3, 32));
  const __m256i even = _mm256_unpacklo_epi64(a, b);
  const __m256i odd = _mm256_unpackhi_epi64(a, b);
  auto* out = reinterpret_cast<__m256i*>(words);
  _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

/// Words [4 first, 4 first + kBlock) of the stream {key, high}: philox4x32, four blocks at a time.
void draw(std::uint64_t key, std::uint64_t first, std::uint64_t high, std::uint32_t* words) {
  const __m256i c2 = _mm256_set1_epi64x(static_cast<std::int64_t>(high));
  for (std::int64_t i = 0; i < kBlock / 4; i += 4) {
    const __m256i counter = _mm256_add_epi64(
        _mm256_set1_epi64x(static_cast<std::int64_t>(first) + i), _mm256_set_epi64x(3, 2, 1, 0));
    const Words begin = {counter, _mm256_srli_epi64(counter, 32), c2, _mm256_srli_epi64(c2, 32)};
    store_blocks(philox_rounds(begin, key), words + 4 * i);
  }
}
#else
/// Words [4 first, 4 first + kBlock) of the stream {key, high}.
void draw(std::uint64_t key, std::uint64_t first, std::uint64_t high, std::uint32_t* words) {
  for (std::int64_t i = 0; i < kBlock / 4; ++i) {
    const auto four = philox4x32(key, first + static_cast<std::uint64_t>(i), high);
    std::copy(four.begin(), four.end(), words + 4 * i);
  }
}
#endif

/// u ≥ rate for u = k / 2^24 is k ≥ threshold; 2^24 where nothing is kept.
std::uint32_t threshold_of(double rate) {
  return static_cast<std::uint32_t>(std::ceil(rate * 0x1p24));
}

template <class Acc>
std::unique_ptr<Kernel> make_dropout(const KernelRequest& request, ThreadPool& pool) {
  const auto& attributes = request.attributes.as<ops::DropoutAttributes>();
  const std::int64_t elements = request.outputs[0].shape.elements();
  const auto size_in = static_cast<std::int64_t>(size_of(request.inputs[0].dtype));
  const auto size_out = static_cast<std::int64_t>(size_of(request.outputs[0].dtype));
  const ConvertFn load = converter(request.inputs[0].dtype, dtype_of<Acc>);
  const ConvertFn store = converter(dtype_of<Acc>, request.outputs[0].dtype);
  const std::uint32_t threshold = threshold_of(attributes.rate);
  const Acc scale = attributes.rate < 1 ? static_cast<Acc>(1 / (1 - attributes.rate)) : Acc{0};
  return make_kernel("philox", 0, [=, seed = attributes.seed, &pool](const KernelArguments& a) {
    const auto step = static_cast<std::uint64_t>(*a.input<std::int64_t>(1));
    pool.parallel_for((elements + kChunk - 1) / kChunk, [&](std::int64_t chunk, int) {
      std::uint32_t words[kBlock];
      Acc values[kBlock];
      const std::int64_t end = std::min(elements, (chunk + 1) * kChunk);
      for (std::int64_t first = chunk * kChunk; first < end; first += kBlock) {
        const std::int64_t count = std::min(kBlock, end - first);
        draw(seed, static_cast<std::uint64_t>(first) / 4, step, words);
        load(a.input<char>(0) + first * size_in, values, count);
        for (std::int64_t i = 0; i < count; ++i) {
          const Acc kept = values[i] * scale;
          values[i] = (words[i] >> 8) >= threshold ? kept : Acc{0};
        }
        store(values, a.output<char>(0) + first * size_out, count);
      }
    });
  });
}

std::unique_ptr<Kernel> dropout_factory(const KernelRequest& request, ThreadPool& pool,
                                        std::string&) {
  if (request.inputs[0].dtype == DType::kFloat64) return make_dropout<double>(request, pool);
  return make_dropout<float>(request, pool);
}

}  // namespace

void register_dropout_kernels(Registry& registry) {
  registry.add("dropout", "philox", dropout_factory);
}

}  // namespace demi::cpu
