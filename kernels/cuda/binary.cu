// Kernels of the family binary: arithmetic, comparisons and selection with broadcasting.

#include <demi/ops/binary.h>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/reduction/reduction.h"

namespace demi::cuda {
namespace {

template <class C>
using Wrapping = std::conditional_t<std::is_integral_v<C>, std::uint64_t, C>;

struct Add {
  template <class C>
  __device__ static C apply(C a, C b) {
    return static_cast<C>(static_cast<Wrapping<C>>(a) + static_cast<Wrapping<C>>(b));
  }
};
struct Subtract {
  template <class C>
  __device__ static C apply(C a, C b) {
    return static_cast<C>(static_cast<Wrapping<C>>(a) - static_cast<Wrapping<C>>(b));
  }
};
struct Multiply {
  template <class C>
  __device__ static C apply(C a, C b) {
    return static_cast<C>(static_cast<Wrapping<C>>(a) * static_cast<Wrapping<C>>(b));
  }
};
struct Divide {
  template <class C>
  __device__ static C apply(C a, C b) {
    return a / b;
  }
};
struct Maximum {
  template <class C>
  __device__ static C apply(C a, C b) {
    return b > a || b != b ? b : a;
  }
};
struct Minimum {
  template <class C>
  __device__ static C apply(C a, C b) {
    return b < a || b != b ? b : a;
  }
};
struct Power {
  template <class C>
  __device__ static C apply(C a, C b) {
    return b == C{2} ? a * a : pow(a, b);
  }
};
struct Equal {
  template <class C>
  __device__ static bool apply(C a, C b) {
    return a == b;
  }
};
struct Greater {
  template <class C>
  __device__ static bool apply(C a, C b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <class C>
  __device__ static bool apply(C a, C b) {
    return a >= b;
  }
};
struct Identity {
  template <class C>
  __device__ static C apply(C x) {
    return x;
  }
};

template <class Op>
std::unique_ptr<Kernel> comparison_packets(const KernelRequest& request, Context& context,
                                           std::string& reason) {
  return dispatch_floating(request.inputs[0].dtype, reason, [&](auto tag) {
    return make_packets<Op, typename decltype(tag)::type, bool, 2>(request, context, reason);
  });
}

template <class Op>
std::unique_ptr<Kernel> comparison_any(const KernelRequest& request, Context& context,
                                       std::string&) {
  const DType dtype = promote(request.inputs[0].dtype, request.inputs[1].dtype);
  return dispatch_compute(dtype, [&](auto tag) {
    return make_any_elements<Op, typename decltype(tag)::type, 2>(request, context);
  });
}

/// inputs: the condition, a, b.
template <class C>
__global__ void where_any(AnyInputs<3> inputs, AnyOutput y, std::int64_t count) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
    const int chosen = inputs.get<std::int64_t>(0, i) != 0 ? 1 : 2;
    y.set(i, inputs.get<C>(chosen, i));
  }
}

/// A condition like the output, values whole or one number, all of one dtype.
template <class T>
__global__ void where_packets(const bool* condition, PacketInputs<T, 2> values, T* y,
                              std::int64_t count) {
  constexpr int kN = kPacketLength<T>;
  const std::int64_t packets = count / kN;
  for (std::int64_t i = thread_number(); i < packets; i += thread_count()) {
    const auto choose = load_packet<kN>(condition + i * kN);
    const auto a = packet_of<T, 2, kN>(values, 0, i * kN);
    const auto b = packet_of<T, 2, kN>(values, 1, i * kN);
    Packet<T, kN> out;
    DEMI_UNROLL
    for (int n = 0; n < kN; ++n) out.at[n] = choose.at[n] ? a.at[n] : b.at[n];
    store_packet(y + i * kN, out);
  }
  for (std::int64_t i = packets * kN + thread_number(); i < count; i += thread_count()) {
    const int chosen = condition[i] ? 0 : 1;
    const std::int64_t period = values.period[chosen];
    y[i] = values.data[chosen][period == 0 ? i : i % period];
  }
}

std::unique_ptr<Kernel> make_where_packets(const KernelRequest& request, Context& context,
                                           std::string& reason) {
  const TensorType& y = request.outputs[0];
  if (request.inputs[0].shape != y.shape) {
    reason = "the condition is broadcast";
    return nullptr;
  }
  if (request.inputs[1].dtype != y.dtype) {
    reason = "input and output differ in dtype";
    return nullptr;
  }
  const KernelRequest values = {request.op, request.attributes, request.inputs.subspan(1),
                                request.outputs};
  return dispatch_floating(y.dtype, reason, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    constexpr int kN = kPacketLength<T>;
    std::array<std::int64_t, 2> periods;
    if (!packet_periods<2>(values, kN, periods, reason)) return nullptr;
    const std::int64_t count = y.shape.elements();
    const unsigned blocks = elementwise_blocks((count + kN - 1) / kN, context);
    return make_kernel("packets", 0, [=, &context](const KernelArguments& a) {
      const PacketInputs<T, 2> bound = {{a.input<T>(1), a.input<T>(2)}, {periods[0], periods[1]}};
      launch(&where_packets<T>, blocks, kElementwiseThreads, 0, context.stream(), a.input<bool>(0),
             bound, a.output<T>(0), count);
    });
  });
}

std::unique_ptr<Kernel> make_where_any(const KernelRequest& request, Context& context,
                                       std::string&) {
  const TensorType& y = request.outputs[0];
  return dispatch_compute(y.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    const std::int64_t count = y.shape.elements();
    return make_kernel(
        "any", 0,
        [inputs = any_inputs<3>(request), count, dtype = y.dtype,
         blocks = elementwise_blocks(count, context), &context](const KernelArguments& a) {
          launch(&where_any<C>, blocks, kElementwiseThreads, 0, context.stream(),
                 bound_to(inputs, a), AnyOutput{a.outputs[0], dtype}, count);
        });
  });
}

std::unique_ptr<Kernel> make_sum_to(const KernelRequest& request, Context& context, std::string&) {
  const TensorType& x = request.inputs[0];
  const TensorType& y = request.outputs[0];
  AxisSet axes;
  for (int axis = -1; axis >= -x.shape.rank(); --axis) {
    const bool kept = axis >= -y.shape.rank() && y.shape[axis] == x.shape[axis];
    if (!kept) axes.set(static_cast<std::size_t>(x.shape.normalize_axis(axis)));
  }
  return make_reduction(Reduction::kSum, x, axes, y.dtype, context);
}

template <class Op>
void add_arithmetic(Registry& registry, const char* name) {
  registry.add(name, "packets", packets_factory<Op, 2>);
  registry.add(name, "any", number_factory<Op, 2>);
}

template <class Op>
void add_floating(Registry& registry, const char* name) {
  registry.add(name, "packets", packets_factory<Op, 2>);
  registry.add(name, "any", floating_factory<Op, 2>);
}

template <class Op>
void add_comparison(Registry& registry, const char* name) {
  registry.add(name, "packets", comparison_packets<Op>);
  registry.add(name, "any", comparison_any<Op>);
}

}  // namespace

void register_binary_kernels(Registry& registry) {
  add_arithmetic<Add>(registry, "add");
  add_arithmetic<Subtract>(registry, "subtract");
  add_arithmetic<Multiply>(registry, "multiply");
  add_floating<Divide>(registry, "divide");
  add_arithmetic<Maximum>(registry, "maximum");
  add_arithmetic<Minimum>(registry, "minimum");
  add_floating<Power>(registry, "power");
  add_comparison<Equal>(registry, "equal");
  add_comparison<Greater>(registry, "greater");
  add_comparison<GreaterEqual>(registry, "greater_equal");
  registry.add("where", "packets", make_where_packets);
  registry.add("where", "any", make_where_any);
  registry.add("broadcast_to", "packets", packets_factory<Identity, 1>);
  registry.add("broadcast_to", "any", number_factory<Identity, 1>);
  registry.add("sum_to", "reduce", make_sum_to);
}

}  // namespace demi::cuda
