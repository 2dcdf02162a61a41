// Compiled for AVX-512: see Note [Instruction sets] before adding an include.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define DEMI_CPU_ISA avx512
#define DEMI_CPU_VECTOR_BYTES 64
#include "kernels/cpu/microkernels_impl.h"
#else
#include "kernels/cpu/microkernels.h"
#endif

namespace demi::cpu {

template <class E>
const MicroKernels<E>* avx512_microkernels() {
#if defined(DEMI_CPU_ISA)
  static const MicroKernels<E> kernels = avx512::make_microkernels<E, 4>();
  return &kernels;
#else
  return nullptr;
#endif
}

template const MicroKernels<float>* avx512_microkernels<float>();
template const MicroKernels<double>* avx512_microkernels<double>();

}  // namespace demi::cpu
