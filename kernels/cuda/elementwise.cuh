// Kernels whose output element i depends on element i of each (broadcast) input only.
//
// An operation is a struct of static functions apply(C…) → C or bool, C being float, double or
// int64, whose arithmetic wraps around.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/index_map.cuh"
#include "kernels/cuda/packet.cuh"
#include "kernels/cuda/registry.h"

namespace demi::cuda {

/// Inputs of one dtype whose elements lie in the order of the output: whole, one number for all, or
/// repeated every `period` elements, which packets divide.
template <class T, int kInputs>
struct PacketInputs {
  const T* data[kInputs];
  std::int64_t period[kInputs];  ///< 0: whole; 1: one number
};

template <class T, int kInputs, int kN>
__device__ inline Packet<T, kN> packet_of(const PacketInputs<T, kInputs>& inputs, int input,
                                          std::int64_t first) {
  const T* data = inputs.data[input];
  const std::int64_t period = inputs.period[input];
  if (period == 1) {
    Packet<T, kN> packet;
    DEMI_UNROLL
    for (int n = 0; n < kN; ++n) packet.at[n] = data[0];
    return packet;
  }
  return load_packet<kN>(data + (period == 0 ? first : first % period));
}

template <class Op, class T, class Result, int kInputs, int... kInput>
__device__ inline void apply_packets(const PacketInputs<T, kInputs>& inputs, Result* y,
                                     std::int64_t count, std::integer_sequence<int, kInput...>) {
  constexpr int kN = kPacketLength<T>;
  const std::int64_t packets = count / kN;
  for (std::int64_t i = thread_number(); i < packets; i += thread_count()) {
    const Packet<T, kN> in[] = {packet_of<T, kInputs, kN>(inputs, kInput, i * kN)...};
    Packet<Result, kN> out;
    DEMI_UNROLL
    for (int n = 0; n < kN; ++n) {
      out.at[n] =
          wrap_element<Result>(Op::apply(convert_element<Accumulator<T>>(in[kInput].at[n])...));
    }
    store_packet(y + i * kN, out);
  }
  for (std::int64_t i = packets * kN + thread_number(); i < count; i += thread_count()) {
    const std::int64_t at[] = {(inputs.period[kInput] == 0 ? i : i % inputs.period[kInput])...};
    y[i] = wrap_element<Result>(
        Op::apply(convert_element<Accumulator<T>>(inputs.data[kInput][at[kInput]])...));
  }
}

template <class Op, class T, class Result, int kInputs>
__global__ void packets(PacketInputs<T, kInputs> inputs, Result* y, std::int64_t count) {
  apply_packets<Op>(inputs, y, count, std::make_integer_sequence<int, kInputs>{});
}

/// Inputs of any dtypes and strides.
template <int kInputs>
struct AnyInputs {
  AnyInput input[kInputs];
  IndexMap map[kInputs];
  std::int64_t contiguous[kInputs];  ///< flags

  template <class C>
  __device__ C get(int which, std::int64_t i) const {
    return input[which].template get<C>(contiguous[which] != 0 ? i : map[which].offset(i));
  }
};

template <class Op, class C, int kInputs, int... kInput>
__device__ inline void apply_any(const AnyInputs<kInputs>& inputs, const AnyOutput& y,
                                 std::int64_t count, std::integer_sequence<int, kInput...>) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
    const auto value = Op::apply(inputs.template get<C>(kInput, i)...);
    if constexpr (std::is_same_v<decltype(value), const bool>) {
      static_cast<bool*>(y.data)[i] = value;
    } else {
      y.set(i, value);
    }
  }
}

template <class Op, class C, int kInputs>
__global__ void any_elements(AnyInputs<kInputs> inputs, AnyOutput y, std::int64_t count) {
  apply_any<Op, C>(inputs, y, count, std::make_integer_sequence<int, kInputs>{});
}

/// The first kInputs inputs of a request, without addresses.
template <int kInputs>
AnyInputs<kInputs> any_inputs(const KernelRequest& request) {
  AnyInputs<kInputs> inputs = {};
  for (int i = 0; i < kInputs; ++i) {
    const TensorType& input = request.inputs[static_cast<std::size_t>(i)];
    const BroadcastLayout layout = broadcast_layout(input.shape, request.outputs[0].shape);
    inputs.input[i] = {nullptr, input.dtype};
    inputs.map[i] = index_map(layout);
    inputs.contiguous[i] = layout.is_contiguous() ? 1 : 0;
  }
  return inputs;
}

/// The inputs with their addresses.
template <int kInputs>
AnyInputs<kInputs> bound_to(AnyInputs<kInputs> inputs, const KernelArguments& arguments) {
  for (int i = 0; i < kInputs; ++i) {
    inputs.input[i].data = arguments.inputs[static_cast<std::size_t>(i)];
  }
  return inputs;
}

/// The general kernel: computes output 0 in C from the first kInputs inputs.
template <class Op, class C, int kInputs>
std::unique_ptr<Kernel> make_any_elements(const KernelRequest& request, Context& context) {
  const TensorType& y = request.outputs[0];
  const std::int64_t count = y.shape.elements();
  const auto body = [inputs = any_inputs<kInputs>(request), count, dtype = y.dtype,
                     blocks = elementwise_blocks(count, context),
                     &context](const KernelArguments& a) {
    launch(&any_elements<Op, C, kInputs>, blocks, kElementwiseThreads, 0, context.stream(),
           bound_to(inputs, a), AnyOutput{a.outputs[0], dtype}, count);
  };
  return make_kernel("any", 0, body);
}

/// Periods of inputs for PacketInputs, if packets of `length` elements fit them all.
template <int kInputs>
bool packet_periods(const KernelRequest& request, int length,
                    std::array<std::int64_t, kInputs>& periods, std::string& reason) {
  for (std::size_t i = 0; i < kInputs; ++i) {
    const TensorType& input = request.inputs[i];
    const BroadcastLayout layout = broadcast_layout(input.shape, request.outputs[0].shape);
    if (input.dtype != request.inputs[0].dtype) {
      reason = "the inputs differ in dtype";
      return false;
    }
    if (layout.is_contiguous()) {
      periods[i] = 0;
    } else if (layout.is_scalar()) {
      periods[i] = 1;
    } else if (layout.is_periodic() && layout.extent[1] % length == 0 && layout.extent[1] > 0) {
      periods[i] = layout.extent[1];
    } else {
      reason = "an input is broadcast inside packets";
      return false;
    }
  }
  return true;
}

/// The kernel of inputs of one floating dtype T that lie like the output; Result is T or bool.
template <class Op, class T, class Result, int kInputs>
std::unique_ptr<Kernel> make_packets(const KernelRequest& request, Context& context,
                                     std::string& reason) {
  constexpr int kN = kPacketLength<T>;
  std::array<std::int64_t, kInputs> periods;
  if (!packet_periods<kInputs>(request, kN, periods, reason)) return nullptr;
  const std::int64_t count = request.outputs[0].shape.elements();
  const unsigned blocks = elementwise_blocks((count + kN - 1) / kN, context);
  return make_kernel("packets", 0, [=, &context](const KernelArguments& a) {
    PacketInputs<T, kInputs> inputs;
    for (int i = 0; i < kInputs; ++i) {
      inputs.data[i] = a.input<T>(static_cast<std::size_t>(i));
      inputs.period[i] = periods[static_cast<std::size_t>(i)];
    }
    launch(&packets<Op, T, Result, kInputs>, blocks, kElementwiseThreads, 0, context.stream(),
           inputs, a.output<Result>(0), count);
  });
}

/// Candidate "packets" of an operation whose result has the dtype of its inputs.
template <class Op, int kInputs>
std::unique_ptr<Kernel> packets_factory(const KernelRequest& request, Context& context,
                                        std::string& reason) {
  const DType dtype = request.inputs[0].dtype;
  if (request.outputs[0].dtype != dtype) {
    reason = "input and output differ in dtype";
    return nullptr;
  }
  return dispatch_floating(dtype, reason, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return make_packets<Op, T, T, kInputs>(request, context, reason);
  });
}

/// Candidate "any" of an operation on floating values.
template <class Op, int kInputs>
std::unique_ptr<Kernel> floating_factory(const KernelRequest& request, Context& context,
                                         std::string& reason) {
  const DType dtype = request.outputs[0].dtype;
  if (!is_floating(dtype)) {
    reason = "integers are not supported";
    return nullptr;
  }
  if (dtype == DType::kFloat64) return make_any_elements<Op, double, kInputs>(request, context);
  return make_any_elements<Op, float, kInputs>(request, context);
}

/// body(TypeTag<C>{}) with the type in which values of this dtype are computed.
template <class Body>
auto dispatch_compute(DType dtype, Body&& body) {
  if (!is_floating(dtype)) return body(TypeTag<std::int64_t>{});
  if (dtype == DType::kFloat64) return body(TypeTag<double>{});
  return body(TypeTag<float>{});
}

/// Candidate "any" of an operation on any numbers.
template <class Op, int kInputs>
std::unique_ptr<Kernel> number_factory(const KernelRequest& request, Context& context,
                                       std::string&) {
  return dispatch_compute(request.outputs[0].dtype, [&](auto tag) {
    return make_any_elements<Op, typename decltype(tag)::type, kInputs>(request, context);
  });
}

}  // namespace demi::cuda
