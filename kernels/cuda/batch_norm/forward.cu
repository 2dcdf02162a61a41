// batch_norm_train: sums of each chunk, statistics, normalization; batch_norm_inference: the last
// of the three. The output may be the buffer of x.

#include <cmath>

#include "kernels/cuda/batch_norm/job.cuh"
#include "kernels/cuda/batch_norm/register.h"
#include "kernels/cuda/batch_norm/statistics.cuh"

namespace demi::cuda::batch_norm {
namespace {

/// Mean, biased variance and 1 / sqrt(variance + epsilon) of each channel, and gamma times that.
template <class C>
__global__ void finish_moments(Layout layout, const double* partials, double epsilon,
                               AnyInput gamma, C* mean, C* variance, C* inv_std, C* scale) {
  const int channel = final_channel();
  const double* centres = partials + channel;
  const double* squares = centres + layout.channels;
  const std::int64_t stride = 2 * static_cast<std::int64_t>(layout.channels);
  const auto rows = static_cast<double>(layout.rows);
  const double m = sum_chunks(layout, [&](int chunk) {
    return static_cast<double>(layout.rows_of(chunk)) / rows * centres[chunk * stride];
  });
  double v = sum_chunks(layout, [&](int chunk) {
    const double offset = centres[chunk * stride] - m;
    return squares[chunk * stride] / rows +
           static_cast<double>(layout.rows_of(chunk)) / rows * offset * offset;
  });
  if (threadIdx.x >= kChannelsAtOnce || channel >= layout.channels) return;
  if (v < 0) v = 0;  // by rounding; a NaN stays
  const C inverse = static_cast<C>(1 / std::sqrt(v + epsilon));
  mean[channel] = static_cast<C>(m);
  variance[channel] = static_cast<C>(v);
  inv_std[channel] = inverse;
  scale[channel] = gamma.get<C>(channel) * inverse;
}

/// y = (x - mean) · factor + beta, then relu if asked. `factor` is given, or it is gamma and the
/// variance (not null) says the rest.
template <class T, int N>
__global__ void normalize(Layout layout, bool with_relu, double epsilon, const T* x,
                          AnyInput factor, AnyInput beta, AnyInput mean, AnyInput variance, T* y) {
  using C = Compute<T>;
  const Part part(layout);
  if (part.channel >= layout.channels) return;
  C centre[N], scale[N], shift[N];
  DEMI_UNROLL
  for (int n = 0; n < N; ++n) {
    const int channel = part.channel + n;
    centre[n] = mean.get<C>(channel);
    scale[n] = factor.get<C>(channel);
    shift[n] = beta.get<C>(channel);
    if (variance.data != nullptr) {
      scale[n] *= 1 / std::sqrt(variance.get<C>(channel) + static_cast<C>(epsilon));
    }
  }
  for_rows(layout, part, [&](std::int64_t at) {
    const auto values = load_packet<N>(x + at);
    Packet<T, N> results;
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) {
      const C value = (load(values.at[n]) - centre[n]) * scale[n] + shift[n];
      results.at[n] = store<T>(with_relu ? relu(value) : value);
    }
    store_packet(y + at, results);
  });
}

template <class T, int N>
void train(const Job& job, const KernelArguments& arguments) {
  using C = Compute<T>;
  constexpr DType kComputed = std::is_same_v<C, double> ? DType::kFloat64 : DType::kFloat32;
  const Layout& layout = job.layout;
  auto* partials = static_cast<double*>(arguments.workspace);
  auto* scale = reinterpret_cast<C*>(partials + job.partials());
  const T* x = arguments.input<T>(0);
  C* mean = arguments.output<C>(1);
  launch(&chunk_moments<T, N>, layout.blocks(), kThreads, 0, job.stream(), layout, x, partials);
  launch(&finish_moments<C>, final_blocks(layout), kThreads, 0, job.stream(), layout, partials,
         job.epsilon, job.parameter(arguments, 1), mean, arguments.output<C>(2),
         arguments.output<C>(3), scale);
  launch(&normalize<T, N>, layout.blocks(), kThreads, 0, job.stream(), layout, job.relu,
         job.epsilon, x, AnyInput{scale, kComputed}, job.parameter(arguments, 2),
         AnyInput{mean, kComputed}, AnyInput{nullptr, kComputed}, arguments.output<T>(0));
}

template <class T, int N>
void inference(const Job& job, const KernelArguments& arguments) {
  launch(&normalize<T, N>, job.layout.blocks(), kThreads, 0, job.stream(), job.layout, job.relu,
         job.epsilon, arguments.input<T>(0), job.parameter(arguments, 1),
         job.parameter(arguments, 2), job.parameter(arguments, 3), job.parameter(arguments, 4),
         arguments.output<T>(0));
}

}  // namespace

std::unique_ptr<Kernel> make_train(const KernelRequest& request, Context& context,
                                   std::string& reason) {
  return make(request, context, reason, 0, 1,
              [](auto tag, auto length) { return &train<typename decltype(tag)::type, length()>; });
}

std::unique_ptr<Kernel> make_inference(const KernelRequest& request, Context& context,
                                       std::string& reason) {
  return make(request, context, reason, 0, 0, [](auto tag, auto length) {
    return &inference<typename decltype(tag)::type, length()>;
  });
}

}  // namespace demi::cuda::batch_norm
