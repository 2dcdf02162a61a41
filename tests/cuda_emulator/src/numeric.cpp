#include "tests/cuda_emulator/src/numeric.h"

#include <bit>
#include <cmath>
#include <type_traits>

#include <cuda_fp16.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace cuda_emulator {
namespace {

struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

float widen(Half value) {
#ifdef __F16C__
  return _cvtsh_ss(value.bits);
#else
  return __half2float(std::bit_cast<__half>(value));
#endif
}

float widen(BFloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

float widen(float value) {
  return value;
}

double widen(double value) {
  return value;
}

template <class S>
S narrow(double value) {
  return static_cast<S>(value);
}

template <class S>
S narrow(float value) {
  if constexpr (std::is_same_v<S, Half>) {
#ifdef __F16C__
    return {_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)};
#else
    return std::bit_cast<Half>(__float2half_rn(value));
#endif
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    if (std::isnan(value)) return {0x7FFF};
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return {static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
  } else {
    return static_cast<S>(value);
  }
}

/// body(S{}) with the type that a format is stored as.
template <class Body>
void with_storage(Format format, Body&& body) {
  switch (format) {
    case Format::kHalf:
      return body(Half{});
    case Format::kBFloat16:
      return body(BFloat16{});
    case Format::kFloat:
      return body(float{});
    case Format::kDouble:
      return body(double{});
  }
}

}  // namespace

std::size_t size_of(Format format) {
  std::size_t size = 0;
  with_storage(format, [&]<class S>(S) { size = sizeof(S); });
  return size;
}

std::optional<Format> format_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16F:
      return Format::kHalf;
    case CUDA_R_16BF:
      return Format::kBFloat16;
    case CUDA_R_32F:
      return Format::kFloat;
    case CUDA_R_64F:
      return Format::kDouble;
    default:
      return std::nullopt;
  }
}

std::optional<Format> format_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_HALF:
      return Format::kHalf;
    case CUDNN_DATA_BFLOAT16:
      return Format::kBFloat16;
    case CUDNN_DATA_FLOAT:
      return Format::kFloat;
    case CUDNN_DATA_DOUBLE:
      return Format::kDouble;
    default:
      return std::nullopt;
  }
}

template <class T>
void load(Format format, const void* from, std::int64_t count, std::int64_t stride, T* to) {
  with_storage(format, [&]<class S>(S) {
    const S* source = static_cast<const S*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(widen(source[i * stride]));
  });
}

template <class T>
void store(Format format, const T* from, std::int64_t count, std::int64_t stride, void* to) {
  with_storage(format, [&]<class S>(S) {
    S* target = static_cast<S*>(to);
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (sizeof(S) == 2) {
        target[i * stride] = narrow<S>(static_cast<float>(from[i]));
      } else {
        target[i * stride] = narrow<S>(from[i]);
      }
    }
  });
}

template void load(Format, const void*, std::int64_t, std::int64_t, float*);
template void load(Format, const void*, std::int64_t, std::int64_t, double*);
template void store(Format, const float*, std::int64_t, std::int64_t, void*);
template void store(Format, const double*, std::int64_t, std::int64_t, void*);

float round_to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000) & ~std::uint32_t{0x1FFF});
}

}  // namespace cuda_emulator
