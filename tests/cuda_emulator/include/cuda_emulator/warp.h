// Barriers and warp intrinsics. A thread that reaches one waits until every thread it names has.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_runtime.h>

namespace cuda_emulator {

/// Where in a kernel a call stands; what tells two barriers apart.
struct CodeLocation {
  const char* file;
  int line;

  static constexpr CodeLocation current(const char* file = __builtin_FILE(),
                                        int line = __builtin_LINE()) {
    return {file, line};
  }
};

enum class BarrierKind { kPlain, kOr, kAnd, kCount };

/// __syncthreads and its kin. Fatal if threads of the block meet at different barriers, or if one
/// of them returns before.
int meet_block(BarrierKind kind, int predicate, const CodeLocation& where);

enum class WarpKind { kSync, kShuffle, kBallot, kAny, kAll, kMatchAny };

/// The intrinsic `kind` of the threads in `mask`. kShuffle returns the value of `source_lane`; the
/// others ignore it. Fatal if the mask leaves out the caller or the source, or names lanes that
/// returned, do not exist, or meet at another intrinsic.
std::uint64_t meet_warp(WarpKind kind, unsigned mask, std::uint64_t value, int source_lane,
                        const CodeLocation& where);

/// The lane of the running thread in its warp.
[[nodiscard]] int current_lane();

/// What shuffles take: everything of 4 or 8 bytes, and small numbers.
template <class T>
concept Shuffled = std::is_trivially_copyable_v<T> && sizeof(T) <= 8 && !std::is_pointer_v<T>;

template <Shuffled T>
T shuffle(unsigned mask, T value, int source_lane, const CodeLocation& where) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = meet_warp(WarpKind::kShuffle, mask, bits, source_lane, where);
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

/// The lanes that shuffles of `width` exchange among: [first, first + width).
[[nodiscard]] inline int first_lane(int lane, int width) {
  return lane & ~(width - 1);
}

}  // namespace cuda_emulator

#define CUDA_EMULATOR_HERE \
  const cuda_emulator::CodeLocation& where = cuda_emulator::CodeLocation::current()

inline void __syncthreads(CUDA_EMULATOR_HERE) {
  cuda_emulator::meet_block(cuda_emulator::BarrierKind::kPlain, 0, where);
}
inline int __syncthreads_or(int predicate, CUDA_EMULATOR_HERE) {
  return cuda_emulator::meet_block(cuda_emulator::BarrierKind::kOr, predicate, where);
}
inline int __syncthreads_and(int predicate, CUDA_EMULATOR_HERE) {
  return cuda_emulator::meet_block(cuda_emulator::BarrierKind::kAnd, predicate, where);
}
inline int __syncthreads_count(int predicate, CUDA_EMULATOR_HERE) {
  return cuda_emulator::meet_block(cuda_emulator::BarrierKind::kCount, predicate, where);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, CUDA_EMULATOR_HERE) {
  cuda_emulator::meet_warp(cuda_emulator::WarpKind::kSync, mask, 0, 0, where);
}

template <cuda_emulator::Shuffled T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, CUDA_EMULATOR_HERE) {
  const int lane = cuda_emulator::current_lane();
  return cuda_emulator::shuffle(
      mask, value, cuda_emulator::first_lane(lane, width) + (source & (width - 1)), where);
}
template <cuda_emulator::Shuffled T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_EMULATOR_HERE) {
  const int lane = cuda_emulator::current_lane();
  const int source = lane - static_cast<int>(delta);
  const bool inside = source >= cuda_emulator::first_lane(lane, width);
  return cuda_emulator::shuffle(mask, value, inside ? source : lane, where);
}
template <cuda_emulator::Shuffled T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_EMULATOR_HERE) {
  const int lane = cuda_emulator::current_lane();
  const int source = lane + static_cast<int>(delta);
  const bool inside = source < cuda_emulator::first_lane(lane, width) + width;
  return cuda_emulator::shuffle(mask, value, inside ? source : lane, where);
}
template <cuda_emulator::Shuffled T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, CUDA_EMULATOR_HERE) {
  const int lane = cuda_emulator::current_lane();
  const int source = lane ^ lane_mask;
  const bool inside = source < cuda_emulator::first_lane(lane, width) + width;
  return cuda_emulator::shuffle(mask, value, inside ? source : lane, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, CUDA_EMULATOR_HERE) {
  return static_cast<unsigned>(cuda_emulator::meet_warp(cuda_emulator::WarpKind::kBallot, mask,
                                                        predicate != 0 ? 1 : 0, 0, where));
}
inline int __any_sync(unsigned mask, int predicate, CUDA_EMULATOR_HERE) {
  return static_cast<int>(cuda_emulator::meet_warp(cuda_emulator::WarpKind::kAny, mask,
                                                   predicate != 0 ? 1 : 0, 0, where));
}
inline int __all_sync(unsigned mask, int predicate, CUDA_EMULATOR_HERE) {
  return static_cast<int>(cuda_emulator::meet_warp(cuda_emulator::WarpKind::kAll, mask,
                                                   predicate != 0 ? 1 : 0, 0, where));
}
template <cuda_emulator::Shuffled T>
unsigned __match_any_sync(unsigned mask, T value, CUDA_EMULATOR_HERE) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return static_cast<unsigned>(
      cuda_emulator::meet_warp(cuda_emulator::WarpKind::kMatchAny, mask, bits, 0, where));
}

// Threads run one at a time, so that every store is visible at once.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

#undef CUDA_EMULATOR_HERE
