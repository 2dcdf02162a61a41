// Device functions that CUDA's headers and the C library do not give a C++ compiler. Approximate
// intrinsics are computed exactly: compare with tolerances, as with a GPU.
#pragma once

#include <math.h>
#include <stdio.h>

#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// ---- Minimum and maximum
// ----------------------------------------------------------------------------
#define CUDA_EMULATOR_MIN_MAX(type) \
  inline type min(type a, type b) { \
    return b < a ? b : a;           \
  }                                 \
  inline type max(type a, type b) { \
    return a < b ? b : a;           \
  }
CUDA_EMULATOR_MIN_MAX(int)
CUDA_EMULATOR_MIN_MAX(unsigned)
CUDA_EMULATOR_MIN_MAX(long)
CUDA_EMULATOR_MIN_MAX(unsigned long)
CUDA_EMULATOR_MIN_MAX(long long)
CUDA_EMULATOR_MIN_MAX(unsigned long long)
#undef CUDA_EMULATOR_MIN_MAX
inline float min(float a, float b) {
  return ::fminf(a, b);
}
inline float max(float a, float b) {
  return ::fmaxf(a, b);
}
inline double min(double a, double b) {
  return ::fmin(a, b);
}
inline double max(double a, double b) {
  return ::fmax(a, b);
}

// ---- float and double
// -------------------------------------------------------------------------------
inline float __expf(float x) {
  return ::expf(x);
}
inline float __exp10f(float x) {
  return ::powf(10.0f, x);
}
inline float __logf(float x) {
  return ::logf(x);
}
inline float __log2f(float x) {
  return ::log2f(x);
}
inline float __log10f(float x) {
  return ::log10f(x);
}
inline float __powf(float x, float y) {
  return ::powf(x, y);
}
inline float __sinf(float x) {
  return ::sinf(x);
}
inline float __cosf(float x) {
  return ::cosf(x);
}
inline float __tanf(float x) {
  return ::tanf(x);
}
inline void __sincosf(float x, float* sine, float* cosine) {
  *sine = ::sinf(x);
  *cosine = ::cosf(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline float __saturatef(float x) {
  return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}
inline float rsqrtf(float x) {
  return 1.0f / ::sqrtf(x);
}
inline double rsqrt(double x) {
  return 1.0 / ::sqrt(x);
}
inline float rcbrtf(float x) {
  return 1.0f / ::cbrtf(x);
}
inline float normcdff(float x) {
  return 0.5f * ::erfcf(-x * 0.70710678118654752f);
}
inline double normcdf(double x) {
  return 0.5 * ::erfc(-x * 0.70710678118654752440);
}
inline float sinpif(float x) {
  return static_cast<float>(::sin(3.14159265358979323846 * x));
}
inline float cospif(float x) {
  return static_cast<float>(::cos(3.14159265358979323846 * x));
}
inline void sincospif(float x, float* sine, float* cosine) {
  *sine = sinpif(x);
  *cosine = cospif(x);
}

// Explicitly rounded operations, which nvcc never contracts.
inline float __fadd_rn(float x, float y) {
  return x + y;
}
inline float __fsub_rn(float x, float y) {
  return x - y;
}
inline float __fmul_rn(float x, float y) {
  return x * y;
}
inline float __fdiv_rn(float x, float y) {
  return x / y;
}
inline float __fsqrt_rn(float x) {
  return ::sqrtf(x);
}
inline float __frcp_rn(float x) {
  return 1.0f / x;
}
inline float __frsqrt_rn(float x) {
  return static_cast<float>(1.0 / ::sqrt(x));
}
inline float __fmaf_rn(float x, float y, float z) {
  return ::fmaf(x, y, z);
}
inline double __dadd_rn(double x, double y) {
  return x + y;
}
inline double __dmul_rn(double x, double y) {
  return x * y;
}
inline double __ddiv_rn(double x, double y) {
  return x / y;
}
inline double __fma_rn(double x, double y, double z) {
  return ::fma(x, y, z);
}

// ---- Conversions and bits
// ---------------------------------------------------------------------------
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return std::bit_cast<double>(x);
}

namespace cuda_emulator {

/// Conversions to integers saturate on a GPU, and give 0 for NaN, where C++ leaves them undefined.
template <class Integer, class Floating>
Integer saturate(Floating integral) {
  constexpr Floating kEnd = static_cast<Floating>(Integer{1} << (8 * sizeof(Integer) - 2)) *
                            (std::is_signed_v<Integer> ? 2 : 4);
  if (!(integral == integral)) return 0;
  if (integral >= kEnd)
    return static_cast<Integer>(~Integer{0}) ^
           (std::is_signed_v<Integer> ? Integer{1} << (8 * sizeof(Integer) - 1) : Integer{0});
  if constexpr (std::is_signed_v<Integer>) {
    if (integral < -kEnd) return static_cast<Integer>(Integer{1} << (8 * sizeof(Integer) - 1));
  } else {
    if (integral < 0) return 0;
  }
  return static_cast<Integer>(integral);
}

}  // namespace cuda_emulator

#define CUDA_EMULATOR_TO_INTEGER(from, name, type)           \
  inline type __##from##2##name##_rn(from x) {               \
    return cuda_emulator::saturate<type>(std::nearbyint(x)); \
  }                                                          \
  inline type __##from##2##name##_rz(from x) {               \
    return cuda_emulator::saturate<type>(std::trunc(x));     \
  }                                                          \
  inline type __##from##2##name##_rd(from x) {               \
    return cuda_emulator::saturate<type>(std::floor(x));     \
  }                                                          \
  inline type __##from##2##name##_ru(from x) {               \
    return cuda_emulator::saturate<type>(std::ceil(x));      \
  }
CUDA_EMULATOR_TO_INTEGER(float, int, int)
CUDA_EMULATOR_TO_INTEGER(float, uint, unsigned)
CUDA_EMULATOR_TO_INTEGER(float, ll, long long)
CUDA_EMULATOR_TO_INTEGER(float, ull, unsigned long long)
CUDA_EMULATOR_TO_INTEGER(double, int, int)
CUDA_EMULATOR_TO_INTEGER(double, uint, unsigned)
CUDA_EMULATOR_TO_INTEGER(double, ll, long long)
CUDA_EMULATOR_TO_INTEGER(double, ull, unsigned long long)
#undef CUDA_EMULATOR_TO_INTEGER
inline float __int2float_rn(int x) {
  return static_cast<float>(x);
}
inline float __uint2float_rn(unsigned x) {
  return static_cast<float>(x);
}
inline float __ll2float_rn(long long x) {
  return static_cast<float>(x);
}
inline float __ull2float_rn(unsigned long long x) {
  return static_cast<float>(x);
}
inline double __int2double_rn(int x) {
  return x;
}
inline float __double2float_rn(double x) {
  return static_cast<float>(x);
}

inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __popcll(unsigned long long x) {
  return std::popcount(x);
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) {
  return ::ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(x) * y) >> 32);
}
inline int __mulhi(int x, int y) {
  return static_cast<int>((static_cast<std::int64_t>(x) * y) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(x) * y) >> 64);
}

// ---- Loads and stores with a cache hint
// -------------------------------------------------------------
template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <class T>
void __stcg(T* address, std::type_identity_t<T> value) {
  *address = value;
}
[[noreturn]] inline void __trap() {
  std::abort();
}

// ---- 16-bit types
// -----------------------------------------------------------------------------------
inline __half __hfma(__half x, __half y, __half z) {
  // Exact in double; one rounding at the end.
  return __double2half(static_cast<double>(__half2float(x)) * __half2float(y) + __half2float(z));
}
inline __half2 __hfma2(__half2 x, __half2 y, __half2 z) {
  return __halves2half2(__hfma(__low2half(x), __low2half(y), __low2half(z)),
                        __hfma(__high2half(x), __high2half(y), __high2half(z)));
}
inline __nv_bfloat16 __hfma(__nv_bfloat16 x, __nv_bfloat16 y, __nv_bfloat16 z) {
  return __double2bfloat16(static_cast<double>(__bfloat162float(x)) * __bfloat162float(y) +
                           __bfloat162float(z));
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 x, __nv_bfloat162 y, __nv_bfloat162 z) {
  return __halves2bfloat162(__hfma(__low2bfloat16(x), __low2bfloat16(y), __low2bfloat16(z)),
                            __hfma(__high2bfloat16(x), __high2bfloat16(y), __high2bfloat16(z)));
}

#define CUDA_EMULATOR_HALF_FUNCTION(name, function)            \
  inline __half name(__half x) {                               \
    return __float2half_rn(function(__half2float(x)));         \
  }                                                            \
  inline __nv_bfloat16 name(__nv_bfloat16 x) {                 \
    return __float2bfloat16_rn(function(__bfloat162float(x))); \
  }
CUDA_EMULATOR_HALF_FUNCTION(hexp, ::expf)
CUDA_EMULATOR_HALF_FUNCTION(hlog, ::logf)
CUDA_EMULATOR_HALF_FUNCTION(hsqrt, ::sqrtf)
CUDA_EMULATOR_HALF_FUNCTION(hrsqrt, ::rsqrtf)
CUDA_EMULATOR_HALF_FUNCTION(hrcp, 1.0f /)
CUDA_EMULATOR_HALF_FUNCTION(htanh, ::tanhf)
CUDA_EMULATOR_HALF_FUNCTION(hfloor, ::floorf)
CUDA_EMULATOR_HALF_FUNCTION(hceil, ::ceilf)
CUDA_EMULATOR_HALF_FUNCTION(hrint, ::nearbyintf)
#undef CUDA_EMULATOR_HALF_FUNCTION
inline int __half2int_rn(__half x) {
  return __float2int_rn(__half2float(x));
}
inline int __half2int_rd(__half x) {
  return __float2int_rd(__half2float(x));
}
inline int __half2int_ru(__half x) {
  return __float2int_ru(__half2float(x));
}
