// Runs the blocks of a kernel one after another, its threads on fibers.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "cuda_emulator/device.h"
#include "tests/cuda_emulator/src/fiber.h"

namespace cuda_emulator {

// Note [Threads of a block]
// A fiber runs thread after thread. Only when one must wait, at a barrier or a warp intrinsic, does
// another fiber take the next thread. So a kernel without barriers is a plain loop on one fiber,
// and one with barriers holds as many fibers as threads wait. A thread that completes a meeting
// goes on at once; those that it released follow. Shuffled, they follow in random order, or, in
// every other block or so, one warp runs as far as it gets before the next: among so many threads
// chance alone never lets a warp overtake one that has not moved at all.

/// What a kernel needs to run.
struct KernelRun {
  std::string name;
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  std::size_t shared_limit = 0;  ///< static and dynamic shared memory together
  std::function<void()> thread;
};

class BlockRunner {
 public:
  /// Runs every block. Fatal as meet_block and meet_warp say.
  void run(const KernelRun& kernel);

  int meet_block(BarrierKind kind, int predicate, const CodeLocation& where);
  std::uint64_t meet_warp(WarpKind kind, unsigned mask, std::uint64_t value, int source_lane,
                          const CodeLocation& where);
  void enter_shared_variable(void* bytes, std::size_t count);
  [[nodiscard]] void* dynamic_shared_memory(std::size_t alignment);

  /// "kernel k, block (0, 0, 0), thread (3, 0, 0)"; "" while no kernel runs.
  [[nodiscard]] std::string place() const;
  [[nodiscard]] int lane() const { return static_cast<int>(thread_ % 32); }
  [[nodiscard]] bool active() const { return kernel_ != nullptr; }

 private:
  /// A fiber, and the thread that it runs.
  struct Worker {
    Fiber fiber;
    unsigned thread = 0;
    int barrier_result = 0;
  };
  /// A thread at a warp intrinsic.
  struct LaneState {
    Worker* worker = nullptr;  ///< null: not waiting
    WarpKind kind = WarpKind::kSync;
    unsigned mask = 0;
    std::uint64_t value = 0;
    int source = 0;
    CodeLocation where = {};
    std::uint64_t result = 0;
    bool returned = false;
  };

  static void run_threads(void* runner);
  void run_block();
  void take_thread(Worker& worker);
  void enter(Worker& worker);
  void wait();
  void release(Worker& worker, bool before_others = false) {
    before_others ? ready_.push_front(&worker) : ready_.push_back(&worker);
  }
  [[nodiscard]] Worker* next_ready();
  [[nodiscard]] Worker& idle_worker();
  void finish_barrier();
  void finish_warp(LaneState* lanes, unsigned mask);
  [[noreturn]] void report_deadlock();
  void set_thread(unsigned thread);
  void permute(std::vector<unsigned>& order) const;

  const KernelRun* kernel_ = nullptr;
  unsigned threads_ = 0;  ///< in a block
  std::vector<unsigned> order_;
  std::vector<unsigned> warp_rank_;  ///< which warp goes first, if by_warp_
  bool by_warp_ = false;
  unsigned next_ = 0;      ///< index in order_ of the next thread to begin
  unsigned returned_ = 0;  ///< threads that have
  unsigned thread_ = 0;    ///< the running one
  Worker* current_ = nullptr;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  std::deque<Worker*> ready_;

  std::vector<Worker*> at_barrier_;
  BarrierKind barrier_kind_ = BarrierKind::kPlain;
  CodeLocation barrier_where_ = {};
  int barrier_any_ = 0, barrier_all_ = 1, barrier_count_ = 0;

  std::vector<LaneState> lanes_;
  std::size_t static_shared_bytes_ = 0;
  std::vector<unsigned char> dynamic_shared_;
};

[[nodiscard]] BlockRunner& block_runner();

}  // namespace cuda_emulator
