#include "kernels/cpu/microkernels.h"

#include "kernels/cpu/microkernels_impl.h"

namespace demi::cpu {
namespace {

bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

template <class E>
const MicroKernels<E>& best_microkernels() {
  if (has_avx512()) {
    if (const MicroKernels<E>* kernels = avx512_microkernels<E>()) return *kernels;
  }
  return baseline_microkernels<E>();
}

}  // namespace

template <class E>
const MicroKernels<E>& baseline_microkernels() {
  static const MicroKernels<E> kernels = baseline::make_microkernels<E, 2>();
  return kernels;
}

template <class E>
const MicroKernels<E>& microkernels() {
  static const MicroKernels<E>& best = best_microkernels<E>();
  return best;
}

template const MicroKernels<float>& baseline_microkernels<float>();
template const MicroKernels<double>& baseline_microkernels<double>();
template const MicroKernels<float>& microkernels<float>();
template const MicroKernels<double>& microkernels<double>();

}  // namespace demi::cpu
