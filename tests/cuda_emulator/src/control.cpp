#include "cuda_emulator/control.h"

#include "tests/cuda_emulator/src/memory.h"
#include "tests/cuda_emulator/src/scheduler.h"
#include "tests/cuda_emulator/src/state.h"

using cuda_emulator::device_memory;
using cuda_emulator::mutex;
using cuda_emulator::state;

extern "C" {

void demi_emulator_counters(DemiEmulatorCounters* counters) {
  const std::lock_guard lock(mutex());
  *counters = state().counters;
}

void demi_emulator_reset() {
  const std::lock_guard lock(mutex());
  cuda_emulator::run_all();
  cuda_emulator::reset(state());
  device_memory().set_limit(0);
  (void)cuda_emulator::last_error(true);
}

void demi_emulator_set_seed(std::uint64_t seed) {
  const std::lock_guard lock(mutex());
  state().settings.seed = seed;
  state().stream_order.seed(seed);
}

void demi_emulator_set_shuffle(std::uint64_t seed) {
  const std::lock_guard lock(mutex());
  state().settings.shuffle = seed;
  state().thread_order.seed(seed);
}

void demi_emulator_set_fill(int byte) {
  const std::lock_guard lock(mutex());
  state().settings.fill = static_cast<unsigned char>(byte);
}

void demi_emulator_fail_allocation_after(std::int64_t n) {
  const std::lock_guard lock(mutex());
  state().allocations.set(n);
}

void demi_emulator_fail_call_after(std::int64_t n, int error) {
  const std::lock_guard lock(mutex());
  state().calls.set(n);
  state().call_error = static_cast<cudaError_t>(error);
}

void demi_emulator_fail_operation_after(std::int64_t n) {
  const std::lock_guard lock(mutex());
  state().operations.set(n);
}

void demi_emulator_set_memory_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex());
  device_memory().set_limit(bytes);
}

std::size_t demi_emulator_leaks(const char* kind) {
  const std::lock_guard lock(mutex());
  return cuda_emulator::leaked(kind);
}

std::size_t demi_emulator_pending_operations() {
  const std::lock_guard lock(mutex());
  return cuda_emulator::pending_count();
}

}  // extern "C"
