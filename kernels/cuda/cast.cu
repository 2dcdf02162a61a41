// Kernels of the family cast.

#include <demi/ops/cast.h>

#include <algorithm>

#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/packet.cuh"
#include "kernels/cuda/registry.h"

namespace demi::cuda {
namespace {

template <class To>
struct Cast {
  template <class From>
  __device__ To operator()(From x) const {
    return convert_element<To>(x);
  }
};

/// x · scale + offset in C.
template <class To, class C>
struct Rescale {
  C scale, offset;

  template <class From>
  __device__ To operator()(From x) const {
    return convert_element<To>(convert_element<C>(x) * scale + offset);
  }
};

/// Elements of a thread: 16 bytes of the wider type.
template <class From, class To>
inline constexpr int kLength = std::min(kPacketLength<From>, kPacketLength<To>);

template <class Function, class From, class To>
__global__ void convert(Function function, const From* x, To* y, std::int64_t count) {
  constexpr int kN = kLength<From, To>;
  const std::int64_t packets = count / kN;
  for (std::int64_t i = thread_number(); i < packets; i += thread_count()) {
    const Packet<From, kN> from = load_packet<kN>(x + i * kN);
    Packet<To, kN> to;
    DEMI_UNROLL
    for (int n = 0; n < kN; ++n) to.at[n] = function(from.at[n]);
    store_packet(y + i * kN, to);
  }
  for (std::int64_t i = packets * kN + thread_number(); i < count; i += thread_count()) {
    y[i] = function(x[i]);
  }
}

template <class From, class To, class Function>
std::unique_ptr<Kernel> make_convert(Function function, std::int64_t count, Context& context) {
  constexpr int kN = kLength<From, To>;
  const unsigned blocks = elementwise_blocks((count + kN - 1) / kN, context);
  return make_kernel("packets", 0, [=, &context](const KernelArguments& a) {
    launch(&convert<Function, From, To>, blocks, kElementwiseThreads, 0, context.stream(), function,
           a.input<From>(0), a.output<To>(0), count);
  });
}

std::unique_ptr<Kernel> make_cast(const KernelRequest& request, Context& context,
                                  std::string& reason) {
  const std::int64_t count = request.outputs[0].shape.elements();
  return dispatch_any(request.inputs[0].dtype, reason, [&](auto from) -> std::unique_ptr<Kernel> {
    using From = typename decltype(from)::type;
    return dispatch_any(request.outputs[0].dtype, reason, [&](auto to) -> std::unique_ptr<Kernel> {
      using To = typename decltype(to)::type;
      return make_convert<From, To>(Cast<To>{}, count, context);
    });
  });
}

std::unique_ptr<Kernel> make_rescale(const KernelRequest& request, Context& context,
                                     std::string& reason) {
  const std::int64_t count = request.outputs[0].shape.elements();
  const auto& attributes = request.attributes.as<ops::RescaleAttributes>();
  return dispatch_any(request.inputs[0].dtype, reason, [&](auto from) -> std::unique_ptr<Kernel> {
    using From = typename decltype(from)::type;
    const auto make = [&](auto to) -> std::unique_ptr<Kernel> {
      using To = typename decltype(to)::type;
      constexpr bool kWide = std::is_same_v<From, double> || std::is_same_v<To, double>;
      using C = std::conditional_t<kWide, double, float>;
      const Rescale<To, C> rescale = {static_cast<C>(attributes.scale),
                                      static_cast<C>(attributes.offset)};
      return make_convert<From, To>(rescale, count, context);
    };
    return dispatch_floating(request.outputs[0].dtype, reason, make);
  });
}

}  // namespace

void register_cast_kernels(Registry& registry) {
  registry.add("cast", "packets", make_cast);
  registry.add("rescale", "packets", make_rescale);
}

}  // namespace demi::cuda
