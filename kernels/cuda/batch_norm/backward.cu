// batch_norm_backward and batch_norm_inference_backward: sums of each chunk, gradients of gamma and
// beta, gradient of x. The latter may be the buffer of dy or x.

#include <cmath>

#include "kernels/cuda/batch_norm/job.cuh"
#include "kernels/cuda/batch_norm/register.h"
#include "kernels/cuda/batch_norm/statistics.cuh"

namespace demi::cuda::batch_norm {
namespace {

/// What the last pass needs of each channel.
template <class C>
struct Coefficients {
  C* factor;
  C* shift;
  C* slope;
};

/// `spread` is inv_std, or with frozen statistics their variance.
template <class C>
__global__ void finish_products(Layout layout, const double* partials, bool frozen, double epsilon,
                                AnyInput gamma, AnyInput spread, C* dgamma, C* dbeta,
                                Coefficients<C> coefficients) {
  const int channel = final_channel();
  const double* sums = partials + channel;
  const std::int64_t stride = 2 * static_cast<std::int64_t>(layout.channels);
  const double sum = sum_chunks(layout, [&](int chunk) { return sums[chunk * stride]; });
  const double product =
      sum_chunks(layout, [&](int chunk) { return sums[chunk * stride + layout.channels]; });
  if (threadIdx.x >= kChannelsAtOnce || channel >= layout.channels) return;
  double inv_std = spread.get<double>(channel);
  if (frozen) inv_std = 1 / std::sqrt(inv_std + epsilon);
  const double share = layout.rows == 0 ? 0.0 : 1 / static_cast<double>(layout.rows);
  dgamma[channel] = static_cast<C>(product * inv_std);
  dbeta[channel] = static_cast<C>(sum);
  coefficients.factor[channel] = static_cast<C>(inv_std) * gamma.get<C>(channel);
  coefficients.shift[channel] = static_cast<C>(sum * share);
  coefficients.slope[channel] = static_cast<C>(product * share * inv_std * inv_std);
}

/// With statistics of the batch mean and variance depend on x:
///   dx = factor · (d - shift - (x - mean) · slope),  factor = gamma · inv_std,
///   shift = mean(d),  slope = inv_std² · mean(d · (x - mean)),
/// with frozen ones only the first term is there. d is dy behind the relu.
template <class T, int N>
__global__ void input_gradient(Layout layout, bool frozen, const T* dy, const T* x, const T* y,
                               AnyInput mean, Coefficients<Compute<T>> coefficients, T* dx) {
  using C = Compute<T>;
  const Part part(layout);
  if (part.channel >= layout.channels) return;
  C centre[N], factor[N], shift[N], slope[N];
  DEMI_UNROLL
  for (int n = 0; n < N; ++n) {
    const int channel = part.channel + n;
    centre[n] = mean.get<C>(channel);
    factor[n] = coefficients.factor[channel];
    shift[n] = coefficients.shift[channel];
    slope[n] = coefficients.slope[channel];
  }
  for_rows(layout, part, [&](std::int64_t at) {
    C gradient[N];
    load_gradient(dy, y, at, gradient);
    if (!frozen) {
      const auto values = load_packet<N>(x + at);
      DEMI_UNROLL
      for (int n = 0; n < N; ++n) {
        gradient[n] = gradient[n] - shift[n] - (load(values.at[n]) - centre[n]) * slope[n];
      }
    }
    Packet<T, N> results;
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) results.at[n] = store<T>(gradient[n] * factor[n]);
    store_packet(dx + at, results);
  });
}

template <class T, int N, bool frozen>
void backward(const Job& job, const KernelArguments& arguments) {
  using C = Compute<T>;
  const Layout& layout = job.layout;
  auto* partials = static_cast<double*>(arguments.workspace);
  auto* arrays = reinterpret_cast<C*>(partials + job.partials());
  const Coefficients<C> coefficients{arrays, arrays + layout.channels,
                                     arrays + 2 * layout.channels};
  const T* dy = arguments.input<T>(0);
  const T* x = arguments.input<T>(1);
  const T* y = job.relu ? arguments.input<T>(5) : nullptr;
  const AnyInput mean = job.parameter(arguments, 3);
  launch(&chunk_products<T, N>, layout.blocks(), kThreads, 0, job.stream(), layout, dy, x, y, mean,
         partials);
  launch(&finish_products<C>, final_blocks(layout), kThreads, 0, job.stream(), layout, partials,
         frozen, job.epsilon, job.parameter(arguments, 2), job.parameter(arguments, 4),
         arguments.output<C>(1), arguments.output<C>(2), coefficients);
  launch(&input_gradient<T, N>, layout.blocks(), kThreads, 0, job.stream(), layout, frozen, dy, x,
         y, mean, coefficients, arguments.output<T>(0));
}

template <bool frozen>
std::unique_ptr<Kernel> make_any_backward(const KernelRequest& request, Context& context,
                                          std::string& reason) {
  return make(request, context, reason, 1, 3, [](auto tag, auto length) {
    return &backward<typename decltype(tag)::type, length(), frozen>;
  });
}

}  // namespace

std::unique_ptr<Kernel> make_backward(const KernelRequest& request, Context& context,
                                      std::string& reason) {
  return make_any_backward<false>(request, context, reason);
}

std::unique_ptr<Kernel> make_inference_backward(const KernelRequest& request, Context& context,
                                                std::string& reason) {
  return make_any_backward<true>(request, context, reason);
}

}  // namespace demi::cuda::batch_norm
