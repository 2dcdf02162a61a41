// Vectors at the end of an array, where fewer elements than lanes are left.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace demi::cpu::DEMI_CPU_ISA {

/// The first `count` lanes (1 ≤ count ≤ lanes), the others zero.
template <class E, class T>
DEMI_INLINE Vec<E> load_up_to(const T* p, std::int64_t count) {
  return count == kLanes<E> ? load_as<E>(p) : load_some<E>(p, count);
}

/// Writes the first `count` lanes.
template <class E, class T>
DEMI_INLINE void store_up_to(T* p, Vec<E> v, std::int64_t count) {
  count == kLanes<E> ? store_as<E>(p, v) : store_some<E>(p, v, count);
}

}  // namespace demi::cpu::DEMI_CPU_ISA
