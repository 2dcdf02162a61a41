// Dropout: the mask is a pure function of seed, step and element, so no state is kept.

#include <demi/ops/dropout.h>

#include <cmath>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/packet.cuh"
#include "kernels/cuda/registry.h"

namespace demi::cuda {
namespace {

struct Words {
  std::uint32_t at[4];
};

/// philox4x32 of src/core/philox.h.
__device__ Words philox(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  auto c0 = static_cast<std::uint32_t>(low);
  auto c1 = static_cast<std::uint32_t>(low >> 32);
  auto c2 = static_cast<std::uint32_t>(high);
  auto c3 = static_cast<std::uint32_t>(high >> 32);
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  DEMI_UNROLL
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t high0 = __umulhi(0xD2511F53u, c0);
    const std::uint32_t low0 = 0xD2511F53u * c0;
    const std::uint32_t high1 = __umulhi(0xCD9E8D57u, c2);
    const std::uint32_t low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Elements of a thread: whole blocks of random words, 16 bytes or more.
template <class T>
inline constexpr int kLength = sizeof(T) == 2 ? 8 : 4;

template <class T>
struct Dropout {
  std::uint64_t seed;
  /// u ≥ rate for u = k / 2^24 is k ≥ threshold; 2^24 keeps nothing. As wide as the scale, so that
  /// there is no padding.
  std::conditional_t<sizeof(Compute<T>) == 8, std::uint64_t, std::uint32_t> threshold;
  Compute<T> scale;

  __device__ T apply(T x, std::uint32_t word) const {
    const Compute<T> kept = load(x) * scale;
    return store<T>((word >> 8) >= threshold ? kept : Compute<T>{0});
  }
};

template <class T>
__global__ void dropout(Dropout<T> drop, const std::int64_t* step_input, const T* x, T* y,
                        std::int64_t count) {
  constexpr int kN = kLength<T>;
  const auto step = static_cast<std::uint64_t>(*step_input);
  for (std::int64_t first = kN * thread_number(); first < count; first += kN * thread_count()) {
    Words words[kN / 4];
    DEMI_UNROLL
    for (int block = 0; block < kN / 4; ++block) {
      words[block] = philox(drop.seed, static_cast<std::uint64_t>(first / 4 + block), step);
    }
    if (first + kN <= count) {
      Packet<T, kN> packet = load_packet<kN>(x + first);
      DEMI_UNROLL
      for (int i = 0; i < kN; ++i) {
        packet.at[i] = drop.apply(packet.at[i], words[i / 4].at[i % 4]);
      }
      store_packet(y + first, packet);
    } else {
      DEMI_UNROLL
      for (int i = 0; i < kN; ++i) {
        if (first + i < count) y[first + i] = drop.apply(x[first + i], words[i / 4].at[i % 4]);
      }
    }
  }
}

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request, Context& context,
                                     std::string& reason) {
  if (request.inputs[0].dtype != request.outputs[0].dtype) {
    reason = "input and output differ in dtype";
    return nullptr;
  }
  const auto& attributes = request.attributes.as<ops::DropoutAttributes>();
  const std::int64_t count = request.outputs[0].shape.elements();
  return dispatch_floating(
      request.inputs[0].dtype, reason, [&](auto tag) -> std::unique_ptr<Kernel> {
        using T = typename decltype(tag)::type;
        const double rate = attributes.rate;
        const Dropout<T> drop = {attributes.seed,
                                 static_cast<std::uint32_t>(std::ceil(rate * 0x1p24)),
                                 rate < 1 ? static_cast<Compute<T>>(1 / (1 - rate)) : 0};
        const unsigned blocks = elementwise_blocks((count + kLength<T> - 1) / kLength<T>, context);
        return make_kernel("philox", 0, [=, &context](const KernelArguments& a) {
          launch(&dropout<T>, blocks, kElementwiseThreads, 0, context.stream(), drop,
                 a.input<std::int64_t>(1), a.input<T>(0), a.output<T>(0), count);
        });
      });
}

}  // namespace

void register_dropout_kernels(Registry& registry) {
  registry.add("dropout", "philox", make_dropout);
}

}  // namespace demi::cuda
