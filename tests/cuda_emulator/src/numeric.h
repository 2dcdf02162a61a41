// Numbers as the emulated libraries store them: float16, bfloat16, float32 and float64 in memory,
// float or double in arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <cudnn.h>
#include <library_types.h>

namespace cuda_emulator {

enum class Format { kHalf, kBFloat16, kFloat, kDouble };

[[nodiscard]] std::size_t size_of(Format format);

/// The format of a type of cuBLAS or cuDNN; nothing for integers, complex numbers and narrow
/// floats.
[[nodiscard]] std::optional<Format> format_of(cudaDataType_t type);
[[nodiscard]] std::optional<Format> format_of(cudnnDataType_t type);

/// `count` stored numbers, `stride` elements apart, as T (float or double). Exact except float64 as
/// float, which is rounded.
template <class T>
void load(Format format, const void* from, std::int64_t count, std::int64_t stride, T* to);

/// The reverse, rounded to nearest even; NaN stays NaN, what is too large becomes infinite.
template <class T>
void store(Format format, const T* from, std::int64_t count, std::int64_t stride, void* to);

/// One number.
template <class T>
[[nodiscard]] T load_one(Format format, const void* from) {
  T value;
  load(format, from, 1, 1, &value);
  return value;
}

/// To the 10 explicit bits of TF32, to nearest, as tensor cores take float32 operands.
[[nodiscard]] float round_to_tf32(float value);

}  // namespace cuda_emulator
