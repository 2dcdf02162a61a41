#include "kernels/cuda/matmul/narrow.h"

#include <demi/ops/matmul.h>

#include "kernels/cuda/packet.cuh"
#include "kernels/cuda/rows.cuh"

namespace demi::cuda::matmul {
namespace {

constexpr int kNarrow = 16;
constexpr std::int64_t kMostTerms = 1024;

/// b [k, n], or stored as its transpose.
template <class T>
struct Right {
  const T* data;
  std::int64_t term_stride, column_stride;
};

/// One warp a row of y: its lanes share the terms.
template <class T>
__global__ void few_columns(const T* a, Right<T> b, AnyInput bias, AnyOutput y, std::int64_t m,
                            std::int64_t n, std::int64_t k, std::int64_t with_relu) {
  using C = Compute<T>;
  for_rows_of_warp(m, [&](std::int64_t row, int lane) {
    C sums[kNarrow] = {};
    for (std::int64_t term = lane; term < k; term += 32) {
      const C left = load(a[row * k + term]);
      const T* right = b.data + term * b.term_stride;
      DEMI_UNROLL
      for (int column = 0; column < kNarrow; ++column) {
        if (column < n) sums[column] += left * load(right[column * b.column_stride]);
      }
    }
    C own = 0;
    DEMI_UNROLL
    for (int column = 0; column < kNarrow; ++column) {
      const C sum = reduce_lanes(sums[column], 32, Sum());
      if (column == lane) own = sum;
    }
    if (lane >= n) return;
    if (bias.data != nullptr) own += bias.template get<C>(lane);
    y.set(row * n + lane, with_relu != 0 ? relu(own) : own);
  });
}

/// One thread for kN neighbours of a row of y, which is 0 where `mask` is not positive.
template <class T, int kN>
__global__ void few_terms(const T* a, Right<T> b, const T* mask, T* y, std::int64_t m,
                          std::int64_t n, std::int64_t k) {
  using C = Compute<T>;
  const std::int64_t packets = n / kN;
  for (std::int64_t i = thread_number(); i < m * packets; i += thread_count()) {
    const std::int64_t row = i / packets;
    const std::int64_t column = (i - row * packets) * kN;
    C sums[kN] = {};
    for (std::int64_t term = 0; term < k; ++term) {
      const C left = load(a[row * k + term]);
      const T* right = b.data + term * b.term_stride + column * b.column_stride;
      DEMI_UNROLL
      for (int c = 0; c < kN; ++c) sums[c] += left * load(right[c * b.column_stride]);
    }
    Packet<T, kN> masks = {};
    if (mask != nullptr) masks = load_packet<kN>(mask + row * n + column);
    Packet<T, kN> values;
    DEMI_UNROLL
    for (int c = 0; c < kN; ++c) {
      const bool passes = mask == nullptr || load(masks.at[c]) > 0;
      values.at[c] = store<T>(passes ? sums[c] : C(0));
    }
    store_packet(y + row * n + column, values);
  }
}

struct Extents {
  std::int64_t m, n, k;
};

/// The extents of a request whose a is not transposed and whose inputs have one dtype; k is 0, with
/// a reason, for others.
Extents extents_of(const KernelRequest& request, std::string& reason) {
  const auto& attributes = request.attributes.as<ops::MatmulAttributes>();
  if (attributes.transpose_a || attributes.bias_gradient ||
      request.inputs[0].dtype != request.inputs[1].dtype) {
    reason = "it multiplies rows of a by b of the same dtype, and sums no gradient";
    return {};
  }
  const Shape& y = request.outputs[0].shape;
  return {y[0], y[1], request.inputs[0].shape[1]};
}

template <class T>
Right<T> right_of(const KernelArguments& arguments, bool transposed, const Extents& e) {
  const std::int64_t term = transposed ? 1 : e.n;
  const std::int64_t column = transposed ? e.k : 1;
  return {arguments.input<T>(1), term, column};
}

}  // namespace

std::unique_ptr<Kernel> make_few_columns(const KernelRequest& request, Context& context,
                                         std::string& reason) {
  const Extents e = extents_of(request, reason);
  if (e.k == 0) return nullptr;
  const auto& attributes = request.attributes.as<ops::MatmulAttributes>();
  if (e.n > kNarrow || e.k > kMostTerms || attributes.relu_backward) {
    reason = "it is of up to 16 columns and 1024 terms, without a mask";
    return nullptr;
  }
  return dispatch_floating(request.inputs[0].dtype, reason, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const AnyInput bias(nullptr, attributes.has_bias ? request.inputs[2].dtype : float32);
    const AnyOutput y(nullptr, request.outputs[0].dtype);
    const std::int64_t with_relu = attributes.activation == ops::Activation::kRelu ? 1 : 0;
    const auto body = [=, has_bias = attributes.has_bias, transposed = attributes.transpose_b,
                       &context](const KernelArguments& arguments) {
      AnyInput bound_bias = bias;
      if (has_bias) bound_bias.data = arguments.inputs[2];
      AnyOutput bound_y = y;
      bound_y.data = arguments.outputs[0];
      launch(&few_columns<T>, row_blocks(e.m, context), kElementwiseThreads, 0, context.stream(),
             arguments.input<T>(0), right_of<T>(arguments, transposed, e), bound_bias, bound_y, e.m,
             e.n, e.k, with_relu);
    };
    return make_kernel("few_columns", 0, body);
  });
}

std::unique_ptr<Kernel> make_few_terms(const KernelRequest& request, Context& context,
                                       std::string& reason) {
  const Extents e = extents_of(request, reason);
  if (e.k == 0) return nullptr;
  const auto& attributes = request.attributes.as<ops::MatmulAttributes>();
  if (e.k > kNarrow || attributes.has_bias || attributes.activation != ops::Activation::kNone ||
      request.outputs[0].dtype != request.inputs[0].dtype) {
    reason = "it is of up to 16 terms, of one dtype, without bias and activation";
    return nullptr;
  }
  return dispatch_floating(request.inputs[0].dtype, reason, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kN = kPacketLength<T>;
    const bool packets = e.n % kN == 0;
    const auto kernel = packets ? &few_terms<T, kN> : &few_terms<T, 1>;
    const unsigned blocks = elementwise_blocks(e.m * e.n / (packets ? kN : 1), context);
    const auto body = [=, masked = attributes.relu_backward, transposed = attributes.transpose_b,
                       &context](const KernelArguments& arguments) {
      launch(kernel, blocks, kElementwiseThreads, 0, context.stream(), arguments.input<T>(0),
             right_of<T>(arguments, transposed, e), masked ? arguments.input<T>(2) : nullptr,
             arguments.output<T>(0), e.m, e.n, e.k);
    };
    return make_kernel("few_terms", 0, body);
  });
}

}  // namespace demi::cuda::matmul
