#include "tests/cuda_emulator/src/block.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/cuda_emulator/src/scheduler.h"
#include "tests/cuda_emulator/src/state.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace cuda_emulator {

std::uint64_t current_block = 0;

namespace {

std::string triple(unsigned x, unsigned y, unsigned z) {
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

std::string text(const CodeLocation& where) {
  return std::string(where.file) + ":" + std::to_string(where.line);
}

bool same(const CodeLocation& a, const CodeLocation& b) {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

const char* name_of(WarpKind kind) {
  switch (kind) {
    case WarpKind::kSync:
      return "__syncwarp";
    case WarpKind::kShuffle:
      return "a shuffle";
    case WarpKind::kBallot:
      return "__ballot_sync";
    case WarpKind::kAny:
      return "__any_sync";
    case WarpKind::kAll:
      return "__all_sync";
    case WarpKind::kMatchAny:
      return "__match_any_sync";
  }
  return "";
}

}  // namespace

// ---- Running ------------------------------------------------------------------------------------

void BlockRunner::run(const KernelRun& kernel) {
  kernel_ = &kernel;
  threads_ = kernel.block.x * kernel.block.y * kernel.block.z;
  blockDim = kernel.block;
  gridDim = kernel.grid;
  lanes_.resize((threads_ + 31) / 32 * 32);
  order_.resize(threads_);
  std::iota(order_.begin(), order_.end(), 0u);
  warp_rank_.resize(lanes_.size() / 32);
  std::iota(warp_rank_.begin(), warp_rank_.end(), 0u);
  // One vector per kernel: AddressSanitizer then knows its end.
  dynamic_shared_ = std::vector<unsigned char>(kernel.shared_bytes);
  dynamic_shared_.shrink_to_fit();

  const std::uint64_t blocks = std::uint64_t{kernel.grid.x} * kernel.grid.y * kernel.grid.z;
  const bool shuffled = state().settings.shuffle != 0;
  by_warp_ = false;
  const std::uint64_t first = shuffled ? state().thread_order() % blocks : 0;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    // Shuffled blocks descend, from anywhere.
    const std::uint64_t block = shuffled ? (first + blocks - i) % blocks : i;
    blockIdx.x = static_cast<unsigned>(block % kernel.grid.x);
    blockIdx.y = static_cast<unsigned>(block / kernel.grid.x % kernel.grid.y);
    blockIdx.z = static_cast<unsigned>(block / kernel.grid.x / kernel.grid.y);
    if (shuffled) {
      std::shuffle(order_.begin(), order_.end(), state().thread_order);
      std::shuffle(warp_rank_.begin(), warp_rank_.end(), state().thread_order);
      by_warp_ = state().thread_order() % 2 == 1;
    }
    run_block();
  }
  kernel_ = nullptr;
}

void BlockRunner::run_block() {
  ++current_block;
  static_shared_bytes_ = 0;
  next_ = 0;
  returned_ = 0;
  for (LaneState& lane : lanes_) lane = {};
  if (!dynamic_shared_.empty()) {
    std::memset(dynamic_shared_.data(), state().settings.fill, dynamic_shared_.size());
  }
  while (returned_ < threads_) {
    Worker* worker = next_ready();
    if (worker == nullptr) {
      if (next_ == threads_) report_deadlock();
      worker = &idle_worker();
      worker->fiber.start(&BlockRunner::run_threads, this);
    }
    enter(*worker);
    if (worker->fiber.finished()) idle_.push_back(worker);
  }
}

void BlockRunner::enter(Worker& worker) {
  current_ = &worker;
  set_thread(worker.thread);
  worker.fiber.resume();
  current_ = nullptr;
}

/// The body of every fiber: threads as long as there are new ones.
void BlockRunner::run_threads(void* pointer) {
  auto& runner = *static_cast<BlockRunner*>(pointer);
  Worker& self = *runner.current_;
  while (runner.next_ < runner.threads_) {
    self.thread = runner.order_[runner.next_++];
    runner.set_thread(self.thread);
    runner.kernel_->thread();
    runner.lanes_[self.thread].returned = true;
    ++runner.returned_;
  }
}

/// Leaves the fiber until the running thread is released.
void BlockRunner::wait() {
  Worker& self = *current_;
  self.fiber.suspend();
}

BlockRunner::Worker* BlockRunner::next_ready() {
  if (ready_.empty()) return nullptr;
  std::size_t index = 0;
  if (state().settings.shuffle != 0 && !by_warp_) index = state().thread_order() % ready_.size();
  std::swap(ready_[index], ready_.front());
  Worker* worker = ready_.front();
  ready_.pop_front();
  return worker;
}

BlockRunner::Worker& BlockRunner::idle_worker() {
  if (idle_.empty()) {
    workers_.push_back(std::make_unique<Worker>());
    idle_.push_back(workers_.back().get());
  }
  Worker& worker = *idle_.back();
  idle_.pop_back();
  return worker;
}

void BlockRunner::set_thread(unsigned thread) {
  thread_ = thread;
  const dim3& block = kernel_->block;
  if (block.y == 1 && block.z == 1) {
    threadIdx = {thread, 0, 0};
  } else {
    threadIdx = {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
  }
}

std::string BlockRunner::place() const {
  if (kernel_ == nullptr) return "";
  std::string place = "kernel " + kernel_->name;
  if (current_ == nullptr) return place;
  return place + ", block " + triple(blockIdx.x, blockIdx.y, blockIdx.z) + ", thread " +
         triple(threadIdx.x, threadIdx.y, threadIdx.z);
}

// ---- Barriers -----------------------------------------------------------------------------------

int BlockRunner::meet_block(BarrierKind kind, int predicate, const CodeLocation& where) {
  if (at_barrier_.empty()) {
    barrier_kind_ = kind;
    barrier_where_ = where;
  } else if (barrier_kind_ != kind || !same(barrier_where_, where)) {
    fatal("divergent barriers: a thread is at " + text(where) + ", others of its block wait at " +
          text(barrier_where_));
  }
  barrier_any_ |= predicate != 0;
  barrier_all_ &= predicate != 0;
  barrier_count_ += predicate != 0;
  at_barrier_.push_back(current_);
  Worker& self = *current_;
  if (at_barrier_.size() == threads_) {
    finish_barrier();
  } else {
    wait();
  }
  return self.barrier_result;
}

/// Releases all but the running thread, which is the last to come.
void BlockRunner::finish_barrier() {
  int result = 0;
  if (barrier_kind_ == BarrierKind::kOr) result = barrier_any_;
  if (barrier_kind_ == BarrierKind::kAnd) result = barrier_all_;
  if (barrier_kind_ == BarrierKind::kCount) result = barrier_count_;
  if (by_warp_) {
    std::sort(at_barrier_.begin(), at_barrier_.end(), [this](const Worker* a, const Worker* b) {
      return warp_rank_[a->thread / 32] < warp_rank_[b->thread / 32];
    });
  }
  for (Worker* worker : at_barrier_) {
    worker->barrier_result = result;
    if (worker != current_) release(*worker);
  }
  at_barrier_.clear();
  barrier_any_ = 0;
  barrier_all_ = 1;
  barrier_count_ = 0;
}

// ---- Warps --------------------------------------------------------------------------------------

std::uint64_t BlockRunner::meet_warp(WarpKind kind, unsigned mask, std::uint64_t value,
                                     int source_lane, const CodeLocation& where) {
  const unsigned lane = thread_ % 32;
  LaneState* const lanes = lanes_.data() + (thread_ - lane);
  const unsigned width = std::min(32u, threads_ - (thread_ - lane));
  if ((mask >> lane & 1) == 0) {
    fatal(std::string(name_of(kind)) + " with a mask without the calling lane, at " + text(where));
  }
  if (width < 32 && mask >> width != 0) {
    fatal(std::string(name_of(kind)) + " with a mask of lanes that the block does not have, at " +
          text(where));
  }
  if ((mask >> source_lane & 1) == 0 && kind == WarpKind::kShuffle) {
    fatal("a shuffle reads lane " + std::to_string(source_lane) +
          ", which its mask leaves out, at " + text(where));
  }
  LaneState& self = lanes[lane];
  self.worker = current_;
  self.kind = kind;
  self.mask = mask;
  self.value = value;
  self.source = source_lane;
  self.where = where;
  unsigned waiting = 0;
  for (unsigned other = 0; other < width; ++other) {
    if ((mask >> other & 1) == 0) continue;
    const LaneState& state = lanes[other];
    if (state.returned) {
      fatal(std::string(name_of(kind)) + " with a mask of lane " + std::to_string(other) +
            ", whose thread has returned, at " + text(where));
    }
    if (state.worker == nullptr) continue;
    if (state.kind != kind || state.mask != mask) {
      fatal(std::string(name_of(kind)) + " at " + text(where) + " meets " + name_of(state.kind) +
            (state.mask != mask ? " with another mask" : "") + " at " + text(state.where));
    }
    waiting |= 1u << other;
  }
  if (waiting == mask) {
    finish_warp(lanes, mask);
  } else {
    wait();
  }
  return self.result;
}

/// Computes every lane's result and releases all but the running thread, the last to come.
void BlockRunner::finish_warp(LaneState* lanes, unsigned mask) {
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0 && lanes[lane].value != 0) ballot |= 1u << lane;
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    LaneState& state = lanes[lane];
    switch (state.kind) {
      case WarpKind::kSync:
        break;
      case WarpKind::kShuffle:
        state.result = lanes[state.source].value;
        break;
      case WarpKind::kBallot:
        state.result = ballot;
        break;
      case WarpKind::kAny:
        state.result = ballot != 0;
        break;
      case WarpKind::kAll:
        state.result = ballot == mask;
        break;
      case WarpKind::kMatchAny:
        state.result = 0;
        for (unsigned other = 0; other < 32; ++other) {
          if ((mask >> other & 1) != 0 && lanes[other].value == state.value) {
            state.result |= 1u << other;
          }
        }
        break;
    }
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    if (lanes[lane].worker != current_) release(*lanes[lane].worker, by_warp_);
    lanes[lane].worker = nullptr;
  }
}

/// No thread can go on, and none is left to begin.
void BlockRunner::report_deadlock() {
  std::string message = "deadlock in block " + triple(blockIdx.x, blockIdx.y, blockIdx.z) + " of " +
                        std::to_string(threads_) + " threads: ";
  if (!at_barrier_.empty()) {
    message += std::to_string(at_barrier_.size()) + " wait at the barrier at " +
               text(barrier_where_) + ", ";
  }
  unsigned in_warps = 0;
  const LaneState* example = nullptr;
  for (const LaneState& lane : lanes_) {
    if (lane.worker == nullptr) continue;
    ++in_warps;
    example = &lane;
  }
  if (example != nullptr) {
    message += std::to_string(in_warps) + " lanes wait at " + name_of(example->kind) + " at " +
               text(example->where) + ", ";
  }
  fatal(message + std::to_string(returned_) + " have returned");
}

// ---- Shared memory ------------------------------------------------------------------------------

void BlockRunner::enter_shared_variable(void* bytes, std::size_t count) {
  if (kernel_ == nullptr) fatal("shared memory is used outside kernels");
  static_shared_bytes_ += count;
  if (static_shared_bytes_ + dynamic_shared_.size() > kernel_->shared_limit) {
    fatal(std::to_string(static_shared_bytes_ + dynamic_shared_.size()) +
          " bytes of shared memory are used; the limit is " +
          std::to_string(kernel_->shared_limit));
  }
  std::memset(bytes, state().settings.fill, count);
}

void* BlockRunner::dynamic_shared_memory(std::size_t alignment) {
  if (kernel_ == nullptr) fatal("shared memory is used outside kernels");
  if (alignment > 16) fatal("dynamic shared memory is aligned to 16 bytes only");
  if (dynamic_shared_.empty()) fatal("dynamic shared memory is used; the launch gave none");
  return dynamic_shared_.data();
}

BlockRunner& block_runner() {
  static auto* runner = new BlockRunner;
  return *runner;
}

// ---- The device's functions ---------------------------------------------------------------------

int meet_block(BarrierKind kind, int predicate, const CodeLocation& where) {
  return block_runner().meet_block(kind, predicate, where);
}

std::uint64_t meet_warp(WarpKind kind, unsigned mask, std::uint64_t value, int source_lane,
                        const CodeLocation& where) {
  return block_runner().meet_warp(kind, mask, value, source_lane, where);
}

int current_lane() {
  return block_runner().lane();
}

void enter_shared_variable(void* bytes, std::size_t count) {
  block_runner().enter_shared_variable(bytes, count);
}

void* dynamic_shared_memory(std::size_t alignment) {
  return block_runner().dynamic_shared_memory(alignment);
}

std::string running_place() {
  const std::string place = block_runner().place();
  return !place.empty() ? place : running_operation();
}

}  // namespace cuda_emulator
