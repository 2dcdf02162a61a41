// Kernels of the family batch_norm: two passes over memory each, one for the sums over the rows
// (not in inference), one for the elementwise result.

#include <demi/ops/batch_norm.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/batch_norm/lanes.h"
#include "kernels/cpu/batch_norm/statistics.h"
#include "kernels/cpu/dispatch_floating.h"
#include "kernels/cpu/ranges.h"
#include "kernels/cpu/registry.h"

namespace demi::cpu {
namespace {

using namespace batch_norm;  // NOLINT(google-build-using-namespace): the rest of this folder

/// Channels whose chunks one task brings together.
constexpr std::int64_t kChannelBlock = 64;

/// Calls body(channel, count, a, b) for blocks of channels, a and b being room for `count` doubles.
template <class Body>
void for_channels(const Layout& layout, ThreadPool& pool, Body&& body) {
  for_ranges(pool, layout.channels, kChannelBlock, [&](std::int64_t begin, std::int64_t end) {
    double a[kChannelBlock];
    double b[kChannelBlock];
    body(begin, end - begin, a, b);
  });
}

/// A request, without what differs between the ops.
struct Job {
  Layout layout;
  double epsilon;
  bool relu;
  std::vector<DType> inputs;  ///< dtypes
  ThreadPool& pool;
};

/// y = (x - mean) · scale + beta, then relu if asked; each parameter has a value per lane.
template <class E, class T>
void normalize(const Job& job, const T* x, const E* mean, const E* scale, const E* beta, T* y) {
  job.pool.parallel_for(job.layout.chunks(), [&](std::int64_t chunk, int) {
    for_vectors<E>(job.layout, chunk, [&](std::int64_t at, std::int64_t lane, std::int64_t count) {
      const Vec<E> deviation = load_up_to<E>(x + at, count) - load<E>(mean + lane);
      const Vec<E> value = fma<E>(deviation, load<E>(scale + lane), load<E>(beta + lane));
      store_up_to<E>(y + at, job.relu ? relu<E>(value) : value, count);
    });
  });
}

template <class T>
void train(const Job& job, const KernelArguments& arguments) {
  using E = ComputeType<T>;
  const Layout& layout = job.layout;
  const Workspace<E> space(layout, arguments.workspace);
  const T* x = arguments.input<T>(0);
  job.pool.parallel_for(layout.chunks(), [&](std::int64_t chunk, int thread) {
    chunk_moments(layout, chunk, x, space.scratch(thread), space.partials_of(chunk));
  });
  E* mean = arguments.output<E>(1);
  E* variance = arguments.output<E>(2);
  E* inv_std = arguments.output<E>(3);
  for_channels(layout, job.pool, [&](std::int64_t first, std::int64_t count, double* m, double* v) {
    merge_moments(layout, space.partials(), first, count, m, v);
    for (std::int64_t i = 0; i < count; ++i) {
      mean[first + i] = static_cast<E>(m[i]);
      variance[first + i] = static_cast<E>(v[i]);
      inv_std[first + i] = static_cast<E>(1 / std::sqrt(v[i] + job.epsilon));
    }
  });
  E* scale = space.lanes(1);
  const E* factor = spread(layout, inv_std, dtype_of<E>, space.lanes(3));
  spread(layout, arguments.inputs[1], job.inputs[1], scale);
  for (std::int64_t lane = 0; lane < layout.width; ++lane) scale[lane] *= factor[lane];
  normalize(job, x, spread(layout, mean, dtype_of<E>, space.lanes(0)), scale,
            spread(layout, arguments.inputs[2], job.inputs[2], space.lanes(2)),
            arguments.output<T>(0));
}

template <class T>
void inference(const Job& job, const KernelArguments& arguments) {
  using E = ComputeType<T>;
  const Layout& layout = job.layout;
  const Workspace<E> space(layout, arguments.workspace);
  E* scale = space.lanes(1);
  const E* variance = spread(layout, arguments.inputs[4], job.inputs[4], space.lanes(3));
  spread(layout, arguments.inputs[1], job.inputs[1], scale);
  for (std::int64_t lane = 0; lane < layout.width; ++lane) {
    scale[lane] *= static_cast<E>(1 / std::sqrt(variance[lane] + job.epsilon));
  }
  normalize(job, arguments.input<T>(0),
            spread(layout, arguments.inputs[3], job.inputs[3], space.lanes(0)), scale,
            spread(layout, arguments.inputs[2], job.inputs[2], space.lanes(2)),
            arguments.output<T>(0));
}

/// dx = factor · (d - shift - (x - mean) · slope), where d is the masked gradient; all four per
/// lane. Without shift and slope dx = factor · d.
template <class E, class T>
void input_gradient(const Job& job, const T* dy, const T* x, const T* y, const E* mean,
                    const E* factor, const E* shift, const E* slope, T* dx) {
  job.pool.parallel_for(job.layout.chunks(), [&](std::int64_t chunk, int) {
    for_vectors<E>(job.layout, chunk, [&](std::int64_t at, std::int64_t lane, std::int64_t count) {
      Vec<E> d = masked_gradient<E>(dy, y, at, count);
      if (shift != nullptr) {
        const Vec<E> deviation = load_up_to<E>(x + at, count) - load<E>(mean + lane);
        d = d - load<E>(shift + lane) - deviation * load<E>(slope + lane);
      }
      store_up_to<E>(dx + at, d * load<E>(factor + lane), count);
    });
  });
}

/// With statistics of the batch (frozen = false: input 4 is inv_std) mean and variance depend on x:
///   dx = gamma · inv_std · (d - mean(d) - (x - mean) · inv_std² · mean(d · (x - mean))),
/// with given ones (frozen: input 4 is the variance) only the first term is there.
template <class T, bool frozen>
void backward(const Job& job, const KernelArguments& arguments) {
  using E = ComputeType<T>;
  const Layout& layout = job.layout;
  const Workspace<E> space(layout, arguments.workspace);
  const T* dy = arguments.input<T>(0);
  const T* x = arguments.input<T>(1);
  const T* y = job.relu ? arguments.input<T>(5) : nullptr;
  const E* mean = spread(layout, arguments.inputs[3], job.inputs[3], space.lanes(0));
  E* inv_std = space.lanes(1);
  spread(layout, arguments.inputs[4], job.inputs[4], inv_std);
  if constexpr (frozen) {
    for (std::int64_t lane = 0; lane < layout.width; ++lane) {
      inv_std[lane] = static_cast<E>(1 / std::sqrt(inv_std[lane] + job.epsilon));
    }
  }
  job.pool.parallel_for(layout.chunks(), [&](std::int64_t chunk, int thread) {
    chunk_products(layout, chunk, dy, x, y, mean, space.scratch(thread), space.partials_of(chunk));
  });
  E* dgamma = arguments.output<E>(1);
  E* dbeta = arguments.output<E>(2);
  E* shift = space.lanes(2);
  E* slope = space.lanes(3);
  const double scale = layout.rows == 0 ? 0.0 : 1 / static_cast<double>(layout.rows);
  for_channels(layout, job.pool, [&](std::int64_t first, std::int64_t count, double* s, double* p) {
    merge_products(layout, space.partials(), first, count, s, p);
    for (std::int64_t i = 0; i < count; ++i) {
      const double factor = inv_std[first + i];
      dgamma[first + i] = static_cast<E>(p[i] * factor);
      dbeta[first + i] = static_cast<E>(s[i]);
      shift[first + i] = static_cast<E>(s[i] * scale);
      slope[first + i] = static_cast<E>(p[i] * scale * factor * factor);
    }
  });
  repeat(layout, shift);
  repeat(layout, slope);
  const E* gamma = spread(layout, arguments.inputs[2], job.inputs[2], space.lanes(4));
  E* factor = inv_std;
  for (std::int64_t lane = 0; lane < layout.width; ++lane) factor[lane] *= gamma[lane];
  input_gradient<E, T>(job, dy, x, y, mean, factor, frozen ? nullptr : shift, slope,
                       arguments.output<T>(0));
}

/// A kernel that calls run.operator()<T>(job, arguments), T storing x, which is input `x_index`.
template <class Run>
std::unique_ptr<Kernel> make(const KernelRequest& request, ThreadPool& pool, std::string& reason,
                             std::size_t x_index, Run run) {
  const TensorType& x = request.inputs[x_index];
  if (request.inputs[0].dtype != x.dtype || request.outputs[0].dtype != x.dtype) {
    reason = "mixed dtypes";
    return nullptr;
  }
  const auto& attributes = request.attributes.as<ops::BatchNormAttributes>();
  Job job{Layout::of(x.shape),
          attributes.epsilon,
          attributes.activation == ops::Activation::kRelu,
          {},
          pool};
  for (const TensorType& input : request.inputs) job.inputs.push_back(input.dtype);
  return dispatch_floating(x.dtype, reason, [&]<class T> {
    const std::size_t bytes = Workspace<ComputeType<T>>::bytes(job.layout, pool.threads());
    return make_kernel("lanes", bytes, [job, run](const KernelArguments& arguments) {
      run.template operator()<T>(job, arguments);
    });
  });
}

std::unique_ptr<Kernel> make_train(const KernelRequest& request, ThreadPool& pool,
                                   std::string& reason) {
  return make(request, pool, reason, 0,
              []<class T>(const Job& job, const KernelArguments& a) { train<T>(job, a); });
}

std::unique_ptr<Kernel> make_inference(const KernelRequest& request, ThreadPool& pool,
                                       std::string& reason) {
  return make(request, pool, reason, 0,
              []<class T>(const Job& job, const KernelArguments& a) { inference<T>(job, a); });
}

template <bool frozen>
std::unique_ptr<Kernel> make_backward(const KernelRequest& request, ThreadPool& pool,
                                      std::string& reason) {
  return make(request, pool, reason, 1, []<class T>(const Job& job, const KernelArguments& a) {
    backward<T, frozen>(job, a);
  });
}

}  // namespace

void register_batch_norm_kernels(Registry& registry) {
  registry.add("batch_norm_train", "lanes", make_train);
  registry.add("batch_norm_inference", "lanes", make_inference);
  registry.add("batch_norm_backward", "lanes", make_backward<false>);
  registry.add("batch_norm_inference_backward", "lanes", make_backward<true>);
}

}  // namespace demi::cpu
