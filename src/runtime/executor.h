// Executor: runs a plan on a backend.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <demi/tensor.h>

#include "src/plan/plan.h"
#include "src/runtime/memory_pool.h"
#include "src/runtime/state_block.h"

namespace demi::runtime {

/// The memory that programs of one model take turns in. It grows when a larger plan joins, before
/// that plan first runs.
class Arena {
 public:
  explicit Arena(std::shared_ptr<Backend> backend);

  /// Of the variables that a step counts and measures in; made at the first use.
  [[nodiscard]] StateBlock& state();

  /// Makes sure of `bytes` of buffers and of a workspace. Memory that was too small is given back,
  /// after the work queued on it, before what replaces it is taken. Throws OutOfMemory, and then
  /// has as much as before.
  void reserve(std::size_t bytes, std::size_t workspace_bytes);
  /// Changes when memory was replaced: what was bound to its addresses must not run again.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] const std::shared_ptr<DeviceMemory>& memory() const { return memory_; }
  [[nodiscard]] const std::shared_ptr<DeviceMemory>& workspace() const { return workspace_; }
  [[nodiscard]] Backend& backend() const { return *backend_; }

  /// Memory of the device's pool, for `purpose`.
  [[nodiscard]] std::shared_ptr<DeviceMemory> allocate(std::size_t bytes,
                                                       const std::string& purpose) const;

  /// Notes that kernels ran which were given the first `bytes` of the buffers and of the workspace.
  void note_use(std::size_t bytes, std::size_t workspace_bytes);
  /// The highest of these, together; 0 before the first run.
  [[nodiscard]] std::size_t peak_bytes() const { return peak_ + workspace_peak_; }
  /// What this model needs on the device by its plans, for the statistics.
  void set_planned(std::size_t bytes) { share_->share.planned = bytes; }

 private:
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<MemoryPool::ShareHolder> share_;
  std::shared_ptr<DeviceMemory> memory_;
  std::shared_ptr<DeviceMemory> workspace_;
  std::unique_ptr<StateBlock> state_;
  std::uint64_t version_ = 0;
  std::size_t peak_ = 0;
  std::size_t workspace_peak_ = 0;
};

/// What the search for a non-finite value found: the first op that gives one.
struct NonFinite {
  std::string layer{};
  std::string op{};
  ir::Phase phase = ir::Phase::kForward;
  std::string input{};     ///< of the model that the op reads, "" if it reads none
  std::string variable{};  ///< non-finite variable that the op reads, "" if it reads none
  bool is_nan = false;     ///< else infinite
};

/// When a step of the plan ran, in seconds since the first began.
struct StepTime {
  double begin = 0;
  double end = 0;
};

/// Moves the plan's variables to the backend when made. Runs of executors that share an arena
/// invalidate each other's outputs.
class Executor {
 public:
  /// `feed_sets` independent sets of input buffers, so that one can be filled while another is
  /// used.
  Executor(std::shared_ptr<const plan::Plan> plan, std::shared_ptr<Arena> arena, int feed_sets = 1);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  [[nodiscard]] const plan::Plan& plan() const { return *plan_; }
  [[nodiscard]] int feed_sets() const { return static_cast<int>(feeds_.size()); }

  /// Host memory of feed `index` in `set`, to be filled before run(set). Waits until the last run
  /// of the set has taken what was there; may be called from one thread while another runs other
  /// sets.
  [[nodiscard]] void* feed(std::size_t index, int set = 0);
  /// Copies `value` in. Throws std::invalid_argument unless its type is the feed's.
  void set_feed(std::size_t index, const Tensor& value, int set = 0);

  void run(int set = 0);
  /// The same, one kernel at a time, each waited for; returns when each of plan().steps ran.
  std::vector<StepTime> run_timed(int set = 0);

  /// Looks at output `output` of a step, a floating tensor; false: enough has been seen.
  using Look = std::function<bool(const plan::Step& step, std::size_t output, const Tensor& value)>;
  /// Runs forward and backward kernels of feed set `set` one at a time, without state updates, and
  /// shows every floating result.
  void observe(const Look& look, int set = 0);

  /// A result of the last run, copied to the host.
  [[nodiscard]] Tensor output(std::size_t index) const;

  /// What observe() finds first that produces a NaN or an infinity.
  [[nodiscard]] std::optional<NonFinite> first_non_finite(int set = 0);

 private:
  [[nodiscard]] void* address(const plan::Location& location, int set) const;
  [[nodiscard]] Launch launch(const plan::Step& step, int set) const;
  void bind();
  void measure(const Launch& launch, const plan::Step& step);
  [[nodiscard]] NonFinite non_finite_at(const plan::Step& step, bool is_nan) const;

  std::shared_ptr<const plan::Plan> plan_;
  std::shared_ptr<Arena> arena_;
  std::uint64_t bound_version_ = 0;  ///< of the arena; 0: not bound
  std::shared_ptr<DeviceMemory> constants_;
  std::size_t used_ = 0;  ///< end of what the bound launches are given of the arena
  std::size_t workspace_used_ = 0;
  std::vector<std::unique_ptr<InputSet>> feeds_;            // [set]
  std::vector<std::unique_ptr<LaunchSequence>> sequences_;  // [set]
};

}  // namespace demi::runtime
