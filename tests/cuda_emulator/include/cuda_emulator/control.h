// What tests set and read in the emulator. C functions, so that a test that opens a plugin can look
// them up by name. They may be called at any time outside kernels, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct DemiEmulatorCounters {
  std::uint64_t calls;                  ///< of the runtime and the libraries
  std::uint64_t host_synchronizations;  ///< calls after which the host has waited for the device
  std::uint64_t kernel_launches;        ///< outside graphs
  std::uint64_t library_launches;       ///< work of emulated libraries, outside graphs
  std::uint64_t graph_launches;
  std::uint64_t graph_operations;    ///< kernels, library work, and copies in these graphs
  std::uint64_t operations;          ///< that ran: kernels, library work, copies; in graphs too
  std::uint64_t device_allocations;  ///< successful ones
  std::uint64_t device_bytes;        ///< held now
  std::uint64_t device_bytes_peak;   ///< the most held since the last reset
};

/// The counters since the start or the last reset.
void demi_emulator_counters(DemiEmulatorCounters* counters);

/// Waits for all work, then sets counters to zero (device_bytes stays), forgets errors, a fault and
/// injected failures, and takes settings from the environment again. Allocations, streams, and
/// other objects stay alive.
void demi_emulator_reset();

/// Which of the streams that could run does: 0 keeps the order of issue, other seeds choose at
/// random.
void demi_emulator_set_seed(std::uint64_t seed);

/// The order of a kernel's blocks and threads: 0 is ascending, other seeds permute.
void demi_emulator_set_shuffle(std::uint64_t seed);

/// The byte that fills fresh device, pinned, and shared memory: 0xFF (NaN in all floating types) at
/// the start. Equal results with 0x00 say that nothing depends on uninitialised memory.
void demi_emulator_set_fill(int byte);

/// After n more successful allocations (device or pinned) the next one fails; negative: none does.
void demi_emulator_fail_allocation_after(std::int64_t n);

/// After n more calls the next one does nothing and returns the cudaError_t `error`, libraries
/// their status for a failed execution; negative: none does.
void demi_emulator_fail_call_after(std::int64_t n, int error);

/// After n more operations the next one faults as an invalid address does: from then on every call
/// returns cudaErrorIllegalAddress. Negative: none does.
void demi_emulator_fail_operation_after(std::int64_t n);

/// Bytes of device memory; 0: those of the described device, at most half of the host's memory.
void demi_emulator_set_memory_limit(std::size_t bytes);

/// Objects of a kind that are alive: "device allocation", "pinned allocation", "stream", "event",
/// "graph", "executable graph", and the kinds of the libraries; null: of all kinds.
std::size_t demi_emulator_leaks(const char* kind);

/// Work that was issued and has not run.
std::size_t demi_emulator_pending_operations();

}  // extern "C"
