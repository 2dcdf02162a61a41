// Packets: several neighbouring elements that one thread moves in one access of up to 16 bytes.
// Buffers of kernels are aligned to 64 bytes (KernelArguments), so a packet at an element index
// that its length divides is aligned.
#pragma once

#include "kernels/cuda/element.cuh"

namespace demi::cuda {

template <class T, int N>
struct alignas(sizeof(T) * N) Packet {
  T at[N];
};

/// Elements of T in 16 bytes.
template <class T>
inline constexpr int kPacketLength = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
__device__ inline Packet<T, N> load_packet(const T* from) {
  return *reinterpret_cast<const Packet<T, N>*>(from);
}

template <int N, class T>
__device__ inline void store_packet(T* to, const Packet<T, N>& packet) {
  *reinterpret_cast<Packet<T, N>*>(to) = packet;
}

/// max(value, 0); a NaN stays.
template <class C>
__host__ __device__ inline C relu(C value) {
  return value < 0 ? C(0) : value;
}

}  // namespace demi::cuda
