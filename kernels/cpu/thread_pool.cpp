// Invariants
//   1. `job_` is written only while the gate is closed and no worker is inside it.
//   2. A worker is inside from the moment it raised the count of an open gate until it lowers it.
//   3. No result depends on a worker coming: the caller takes chunks until none is left, closes the
//      gate and waits for those inside. A worker that wakes too late finds the gate closed.
#include "kernels/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/core/check.h"

namespace demi::cpu {
namespace {

constexpr int kMaxThreads = 1024;
/// Looks at a condition before going to sleep: 20 to 50 µs, longer than the gap between two
/// kernels.
constexpr int kSpins = 1000;

// The gate is one word: bits 0-15 count the workers inside, bit 16 says open, the rest number the
// job.
constexpr std::uint32_t kInside = 0xffff;
constexpr std::uint32_t kOpen = 0x10000;
constexpr std::uint32_t kOneJob = 0x20000;

std::uint32_t job_number(std::uint32_t gate) {
  return gate / kOneJob;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

int processors_available() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Where threads wait for a condition over sequentially consistent atomics: awake for a while, then
/// asleep. Whoever makes the condition true calls `notify` afterwards.
class WaitingRoom {
 public:
  template <class Condition>
  void wait(int spins, Condition condition) {
    for (int i = 0; i < spins; ++i) {
      if (condition()) return;
      relax();
    }
    std::unique_lock lock(mutex_);
    // Counted before the condition is looked at again, so that either this thread sees the change
    // or the notifier sees the sleeper.
    ++sleepers_;
    sleeping_.wait(lock, condition);
    --sleepers_;
  }

  void notify() {
    if (sleepers_ == 0) return;
    { const std::lock_guard lock(mutex_); }
    sleeping_.notify_all();
  }

 private:
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable sleeping_;
};

}  // namespace

struct ThreadPool::State {
  struct Job {
    std::int64_t chunks = 0;
    void* context = nullptr;
    Trampoline body = nullptr;
  };

  /// Which pool's chunk the current thread is running, and as which of its threads.
  struct Place {
    const State* pool = nullptr;
    int thread = 0;
  };
  static thread_local Place place;

  /// Marks the current thread as running chunks of `pool` for as long as it lives.
  class Placed {
   public:
    Placed(const State* pool, int thread) : before_(std::exchange(place, {pool, thread})) {}
    ~Placed() { place = before_; }
    Placed(const Placed&) = delete;
    Placed& operator=(const Placed&) = delete;

   private:
    Place before_;
  };

  explicit State(int thread_count)
      : threads(thread_count), spins(thread_count <= processors_available() ? kSpins : 0) {}

  ~State() {
    stopping = true;
    work.notify();
    for (std::thread& worker : workers) worker.join();
  }

  void serve(int thread) {
    std::uint32_t last_job = 0;
    while (true) {
      std::uint32_t seen = 0;
      work.wait(spins, [&] {
        seen = gate;
        return stopping || ((seen & kOpen) != 0 && job_number(seen) != last_job);
      });
      if (stopping) return;
      if (!gate.compare_exchange_strong(seen, seen + 1)) continue;
      last_job = job_number(seen);
      take_chunks(thread);
      if ((--gate & (kOpen | kInside)) == 0) done.notify();
    }
  }

  void take_chunks(int thread) {
    const Placed placed(this, thread);
    try {
      while (true) {
        const std::int64_t chunk = next_chunk.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= job.chunks) return;
        job.body(job.context, chunk, thread);
      }
    } catch (...) {
      next_chunk.store(job.chunks, std::memory_order_relaxed);
      const std::lock_guard lock(failure_mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  }

  /// Publishes the job, works on it and returns when nobody is inside any more.
  void run_together(const Job& new_job) {
    const std::lock_guard one_at_a_time(callers);
    job = new_job;
    next_chunk = 0;
    gate = (job_number(gate) + 1) * kOneJob + kOpen;
    work.notify();
    take_chunks(0);
    if ((gate.fetch_and(~kOpen) & kInside) != 0) {
      done.wait(spins, [&] { return (gate & kInside) == 0; });
    }
    if (failure != nullptr) std::rethrow_exception(std::exchange(failure, nullptr));
  }

  const int threads;
  const int spins;
  std::mutex callers;
  Job job;
  std::exception_ptr failure;
  std::mutex failure_mutex;
  // Each on a cache line of its own: the first is polled, the second fought over.
  alignas(64) std::atomic<std::uint32_t> gate{0};
  alignas(64) std::atomic<std::int64_t> next_chunk{0};
  alignas(64) std::atomic<bool> stopping{false};
  WaitingRoom work;
  WaitingRoom done;
  std::vector<std::thread> workers;
};

thread_local ThreadPool::State::Place ThreadPool::State::place;

ThreadPool::ThreadPool(int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    internal::fail_argument("threads", "expected between 1 and " + std::to_string(kMaxThreads) +
                                           " threads. Received: " + std::to_string(threads) + ".");
  }
  state_ = std::make_unique<State>(threads);
  for (int thread = 1; thread < threads; ++thread) {
    state_->workers.emplace_back([state = state_.get(), thread] { state->serve(thread); });
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const {
  return state_->threads;
}

void ThreadPool::run(std::int64_t chunks, void* context, Trampoline body) {
  const bool nested = State::place.pool == state_.get();
  if (!nested && chunks > 1 && state_->threads > 1) {
    state_->run_together({chunks, context, body});
    return;
  }
  const int thread = nested ? State::place.thread : 0;
  const State::Placed placed(state_.get(), thread);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) body(context, chunk, thread);
}

int default_thread_count() {
  const char* variable = std::getenv("DEMI_NUM_THREADS");
  if (variable == nullptr) return std::min(processors_available(), kMaxThreads);
  const std::string_view text = variable;
  int threads = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), threads);
  if (error != std::errc() || end != text.end() || threads < 1 || threads > kMaxThreads) {
    internal::fail_argument("threads", "expected DEMI_NUM_THREADS to be an integer between 1 and " +
                                           std::to_string(kMaxThreads) + ". Received: '" +
                                           std::string(text) + "'.");
  }
  return threads;
}

}  // namespace demi::cpu
