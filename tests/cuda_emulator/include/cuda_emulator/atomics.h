// Atomic functions. Threads run one at a time, so plain operations are atomic.
#pragma once

#include <concepts>
#include <type_traits>

namespace cuda_emulator {

template <class T>
concept Atomic32 = std::same_as<T, int> || std::same_as<T, unsigned>;
template <class T>
concept AtomicInteger = Atomic32<T> || std::same_as<T, unsigned long long>;
template <class T>
concept AtomicAddend = AtomicInteger<T> || std::same_as<T, float> || std::same_as<T, double>;
template <class T>
concept AtomicOrdered = AtomicInteger<T> || std::same_as<T, long long>;
template <class T>
concept AtomicExchanged = AtomicInteger<T> || std::same_as<T, float>;

/// Stores a new value and returns the old one, as every atomic function does.
template <class T>
T replace(T* address, T value) {
  const T old = *address;
  *address = value;
  return old;
}

}  // namespace cuda_emulator

template <cuda_emulator::AtomicAddend T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  // Integers wrap around.
  if constexpr (std::same_as<T, int>) {
    return cuda_emulator::replace(
        address, static_cast<int>(static_cast<unsigned>(*address) + static_cast<unsigned>(value)));
  } else {
    return cuda_emulator::replace(address, *address + value);
  }
}
template <cuda_emulator::Atomic32 T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return cuda_emulator::replace(
      address, static_cast<T>(static_cast<unsigned>(*address) - static_cast<unsigned>(value)));
}
template <cuda_emulator::AtomicOrdered T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return cuda_emulator::replace(address, *address < value ? value : *address);
}
template <cuda_emulator::AtomicOrdered T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return cuda_emulator::replace(address, value < *address ? value : *address);
}
template <cuda_emulator::AtomicInteger T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return cuda_emulator::replace(address, *address == expected ? value : *address);
}
template <cuda_emulator::AtomicExchanged T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return cuda_emulator::replace<T>(address, value);
}
template <cuda_emulator::AtomicInteger T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return cuda_emulator::replace(address, static_cast<T>(*address | value));
}
template <cuda_emulator::AtomicInteger T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return cuda_emulator::replace(address, static_cast<T>(*address & value));
}
template <cuda_emulator::AtomicInteger T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  return cuda_emulator::replace(address, static_cast<T>(*address ^ value));
}
/// 0, 1, …, limit, 0, …
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return cuda_emulator::replace(address, *address >= limit ? 0u : *address + 1);
}
/// …, 1, 0, limit, limit - 1, …
inline unsigned atomicDec(unsigned* address, unsigned limit) {
  return cuda_emulator::replace(address, *address == 0 || *address > limit ? limit : *address - 1);
}
