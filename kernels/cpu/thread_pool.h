// The CPU backend's threads.
//
// Note [Deterministic partitioning]
// Results must be bit-identical for any number of threads, so work is cut into chunks by its shape
// alone, never by the number of threads, and anything summed across chunks is summed in chunk
// order. The pool only decides which thread runs which chunk.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace demi::cpu {

/// A fixed set of persistent worker threads; the caller is thread 0. Idle workers spin briefly and
/// then sleep. One parallel_for at a time; a nested call runs on the calling thread alone.
class ThreadPool {
 public:
  /// `threads` ≥ 1 counts the caller. Throws std::invalid_argument.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const;

  /// Calls body(chunk, thread) once for each chunk in [0, chunks), in any order, on any thread in
  /// [0, threads()), and returns when all are done. The first exception a body throws is rethrown.
  /// `body` is only borrowed; nothing is allocated.
  template <class Body>
  void parallel_for(std::int64_t chunks, Body&& body) {
    using Fn = std::remove_reference_t<Body>;
    run(chunks, const_cast<void*>(static_cast<const void*>(&body)),
        [](void* context, std::int64_t chunk, int thread) {
          (*static_cast<Fn*>(context))(chunk, thread);
        });
  }

 private:
  using Trampoline = void (*)(void* context, std::int64_t chunk, int thread);
  void run(std::int64_t chunks, void* context, Trampoline body);

  struct State;
  std::unique_ptr<State> state_;
};

/// Threads used when nobody says otherwise: DEMI_NUM_THREADS if set, else the processors this
/// process may run on. Throws std::invalid_argument for a malformed variable.
[[nodiscard]] int default_thread_count();

}  // namespace demi::cpu
