// Place: the element that an argmax has found so far.
#pragma once

#include <cstdint>

#include "kernels/cuda/reduce.cuh"

namespace demi::cuda {

/// An element and where it is.
template <class C>
struct Place {
  C value;
  std::int32_t index;  ///< negative: of no element
};

template <class C>
__device__ inline Place<C> shuffle_xor(const Place<C>& place, int lanes) {
  return {__shfl_xor_sync(kFullWarp, place.value, lanes),
          __shfl_xor_sync(kFullWarp, place.index, lanes)};
}

/// The first of the largest; the first NaN is larger than all.
struct First {
  template <class C>
  __device__ Place<C> operator()(const Place<C>& a, const Place<C>& b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    const bool a_is_nan = a.value != a.value;
    const bool b_is_nan = b.value != b.value;
    if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
    if (a_is_nan || a.value == b.value) return a.index < b.index ? a : b;
    return a.value > b.value ? a : b;
  }
};

}  // namespace demi::cuda
