// What the files of the core share: settings that tests change, counters, errors, injected
// failures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include <cuda_runtime_api.h>

#include "cuda_emulator/control.h"
#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {

struct Settings {
  std::uint64_t seed = 0;     ///< of the choice between streams; 0: issue order
  std::uint64_t shuffle = 0;  ///< of the order of blocks and threads; 0: ascending
  unsigned char fill = 0xFF;  ///< the byte of fresh memory
  bool fatal_leaks = false;   ///< leaks at exit fail the program
};

/// Counts down to an injected failure.
class Countdown {
 public:
  /// After `n` more events, one fails. Negative: none does.
  void set(std::int64_t n) { left_ = n; }
  [[nodiscard]] bool fires() { return left_ >= 0 && left_-- == 0; }

 private:
  std::int64_t left_ = -1;
};

struct State {
  Settings settings;
  DemiEmulatorCounters counters = {};
  Countdown allocations;  ///< cudaMalloc, cudaHostAlloc
  Countdown calls;        ///< any call, which then returns call_error
  cudaError_t call_error = cudaErrorUnknown;
  Countdown operations;                    ///< work on streams, which then faults
  cudaError_t sticky_error = cudaSuccess;  ///< after a fault every call returns it
  std::mt19937_64 stream_order;
  std::mt19937_64 thread_order;
};

/// Made at first use from the environment (README.md), never destroyed. Protected by mutex().
[[nodiscard]] State& state();

/// Zero counters (bytes stay), no injected failures, no fault, settings from the environment.
void reset(State& state);

/// Remembers an error for cudaGetLastError of this thread, and returns it.
cudaError_t remember(cudaError_t error);
/// The remembered error, and forgets it where `clear`.
[[nodiscard]] cudaError_t last_error(bool clear);

/// Explains on stderr why a call is refused, where DEMI_EMULATOR_VERBOSE is set.
void explain(const std::string& message);

/// "kernel add, block (0, 0, 0), thread (3, 0, 0)", or "" outside kernels; fatal() begins with it.
[[nodiscard]] std::string running_place();

/// "1 stream, 2 device allocations", or "" if nothing is alive.
[[nodiscard]] std::string leaks();
/// How many objects of the kind are alive; null: of all kinds.
[[nodiscard]] std::size_t leaked(const char* kind);

}  // namespace cuda_emulator
