#include "tests/cuda_emulator/src/state.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_emulator/src/memory.h"
#include "tests/cuda_emulator/src/scheduler.h"

namespace cuda_emulator {
namespace {

std::uint64_t environment_number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 0);
}

struct LeakCounter {
  std::string kind;
  std::function<std::size_t()> count;
};

/// Never destroyed, as everything that calls made by destructors may still use.
std::vector<LeakCounter>& leak_counters() {
  static auto* list =
      new std::vector<LeakCounter>{{"device allocation", [] { return device_memory().count(); }},
                                   {"pinned allocation", [] { return pinned_count(); }}};
  return *list;
}

thread_local cudaError_t t_last_error = cudaSuccess;

/// Runs after every destructor of static objects.
__attribute__((destructor)) void report_leaks_at_exit() {
  const std::lock_guard lock(mutex());
  const std::string list = leaks();
  if (list.empty()) return;
  std::fprintf(stderr, "[cuda emulator] leaked at exit: %s\n", list.c_str());
  if (!state().settings.fatal_leaks) return;
  std::fflush(nullptr);
  _exit(66);
}

}  // namespace

void reset(State& s) {
  const DemiEmulatorCounters before = s.counters;
  s = State();
  s.counters.device_bytes = before.device_bytes;
  s.counters.device_bytes_peak = before.device_bytes;
  s.settings.seed = environment_number("DEMI_EMULATOR_SEED", 0);
  s.settings.shuffle = environment_number("DEMI_EMULATOR_SHUFFLE", 0);
  s.settings.fill = static_cast<unsigned char>(environment_number("DEMI_EMULATOR_FILL", 0xFF));
  s.settings.fatal_leaks = environment_number("DEMI_EMULATOR_FATAL_LEAKS", 0) != 0;
  s.stream_order.seed(s.settings.seed);
  s.thread_order.seed(s.settings.shuffle);
}

State& state() {
  static auto* instance = [] {
    auto* s = new State;
    reset(*s);
    return s;
  }();
  return *instance;
}

std::recursive_mutex& mutex() {
  static auto* instance = new std::recursive_mutex;
  return *instance;
}

void fatal(const std::string& message) {
  const std::string place = running_place();
  std::fprintf(stderr, "[cuda emulator] %s%s%s\n", place.c_str(), place.empty() ? "" : ": ",
               message.c_str());
  std::fflush(nullptr);
  std::abort();
}

void explain(const std::string& message) {
  static const bool verbose = environment_number("DEMI_EMULATOR_VERBOSE", 0) != 0;
  if (verbose) std::fprintf(stderr, "[cuda emulator] refused: %s\n", message.c_str());
}

Call::Call(const char* name) : lock_(mutex()), name_(name), error_(cudaSuccess) {
  State& s = state();
  ++s.counters.calls;
  if (is_running()) {
    fatal(std::string(name) + " is called inside work on a stream, which the device cannot do");
  }
  if (s.calls.fires()) {
    error_ = s.call_error;
  } else {
    error_ = s.sticky_error;
  }
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) t_last_error = error;
  return error;
}

cudaError_t last_error(bool clear) {
  if (state().sticky_error != cudaSuccess) return state().sticky_error;
  return clear ? std::exchange(t_last_error, cudaSuccess) : t_last_error;
}

std::string leaks() {
  std::string list;
  for (const LeakCounter& counter : leak_counters()) {
    const std::size_t count = counter.count();
    if (count == 0) continue;
    list += (list.empty() ? "" : ", ") + std::to_string(count) + " " + counter.kind +
            (count > 1 ? "s" : "");
  }
  return list;
}

std::size_t leaked(const char* kind) {
  std::size_t sum = 0;
  for (const LeakCounter& counter : leak_counters()) {
    if (kind == nullptr || counter.kind == kind) sum += counter.count();
  }
  return sum;
}

namespace internal {

std::uintptr_t next_handle() {
  // No x86-64 or arm64 address: who follows a handle faults.
  static std::uintptr_t last = std::uintptr_t{0xDE310} << 40;
  return last += 64;
}

void register_leak_counter(const std::string& kind, std::function<std::size_t()> count) {
  leak_counters().push_back({kind, std::move(count)});
}

}  // namespace internal
}  // namespace cuda_emulator
