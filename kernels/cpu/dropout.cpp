// Dropout. See Note [Deterministic partitioning]: element i needs only i, so chunks are
// independent.

#include <demi/ops/dropout.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/registry.h"
#include "src/core/philox.h"

namespace demi::cpu {
namespace {

constexpr std::int64_t kChunk = 8192;
constexpr std::int64_t kBlock = 256;  // elements whose random words are drawn at once

/// Words [4 first, 4 first + kBlock) of the stream {key, high}.
void draw(std::uint64_t key, std::uint64_t first, std::uint64_t high, std::uint32_t* words) {
  for (std::int64_t i = 0; i < kBlock / 4; ++i) {
    const auto four = philox4x32(key, first + static_cast<std::uint64_t>(i), high);
    for (std::size_t word = 0; word < 4; ++word)
      words[4 * i + static_cast<std::int64_t>(word)] = four[word];
  }
}

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
          values[i] = (words[i] >> 8) >= threshold ? values[i] * scale : Acc{0};
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
