#include "src/runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include <demi/error.h>

#include "src/core/check.h"
#include "src/ir/builtin_ops.h"
#include "src/plan/memory_planner.h"

namespace demi::runtime {
namespace {

/// What is in `tensor`: 0 finite or integers, 1 infinities, 2 a NaN.
int non_finite_kind(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return 0;
  const Tensor wide = tensor.to(DType::kFloat32);
  int kind = 0;
  for (const float value : wide.data<float>()) {
    if (std::isnan(value)) return 2;
    if (std::isinf(value)) kind = 1;
  }
  return kind;
}

void move_to(Arena& arena, VariableState& variable) {
  if (variable.storage->device() == arena.backend().name()) return;
  const Tensor value = variable.read();
  std::shared_ptr<DeviceMemory> storage;
  if (variable.role == VariableRole::kStepState) storage = arena.state().place(value.bytes());
  if (!storage) storage = arena.allocate(value.bytes(), "variable " + variable.name);
  storage->write(value.raw(), 0, value.bytes());
  variable.storage = std::move(storage);
}

}  // namespace

Arena::Arena(std::shared_ptr<Backend> backend)
    : backend_(std::move(backend)), share_(MemoryPool::of(backend_->name()).join()) {}

StateBlock& Arena::state() {
  if (!state_) {
    state_ = std::make_unique<StateBlock>(*backend_, allocate(StateBlock::kBytes, "step state"));
  }
  return *state_;
}

std::shared_ptr<DeviceMemory> Arena::allocate(std::size_t bytes, const std::string& purpose) const {
  return MemoryPool::of(backend_->name()).allocate(backend_, bytes, purpose);
}

void Arena::reserve(std::size_t bytes, std::size_t workspace_bytes) {
  const auto ensure = [this](std::shared_ptr<DeviceMemory>& memory, std::size_t needed,
                             const std::string& purpose) {
    if (memory && memory->bytes() >= needed) return;
    if (memory) backend_->synchronize();
    const std::size_t before = memory ? memory->bytes() : 0;
    memory.reset();
    ++version_;
    try {
      memory = allocate(needed, purpose);
    } catch (const OutOfMemory&) {
      // Programs that had enough go on.
      if (before > 0) memory = allocate(before, purpose);
      throw;
    }
  };
  ensure(memory_, bytes, "arena");
  ensure(workspace_, workspace_bytes, "workspace");
  share_->share.arena_planned = memory_->bytes() + workspace_->bytes();
}

void Arena::note_use(std::size_t bytes, std::size_t workspace_bytes) {
  peak_ = std::max(peak_, bytes);
  workspace_peak_ = std::max(workspace_peak_, workspace_bytes);
  share_->share.arena_peak = peak_bytes();
}

Executor::Executor(std::shared_ptr<const plan::Plan> plan, std::shared_ptr<Arena> arena,
                   int feed_sets)
    : plan_(std::move(plan)), arena_(std::move(arena)) {
  arena_->reserve(plan_->buffer_bytes, plan_->workspace_bytes);
  for (const auto& variable : plan_->variables) move_to(*arena_, *variable);
  constants_ = arena_->allocate(plan_->constant_bytes, "constants");
  for (const plan::Constant& constant : plan_->constants) {
    const auto& attributes =
        plan_->graph->producer(constant.value).attributes.as<ir::ConstantAttributes>();
    const Tensor value = Tensor::full(attributes.shape, attributes.value, attributes.dtype);
    constants_->write(value.raw(), constant.offset, value.bytes());
  }
  std::vector<std::size_t> feed_bytes;
  for (const plan::Feed& feed : plan_->feeds) feed_bytes.push_back(feed.type.bytes());
  const Allocator allocate = [this](std::size_t bytes) {
    return arena_->allocate(bytes, "input buffers");
  };
  for (int set = 0; set < feed_sets; ++set) {
    feeds_.push_back(arena_->backend().allocate_inputs(feed_bytes, allocate));
  }
}

Executor::~Executor() = default;

void* Executor::feed(std::size_t index, int set) {
  return feeds_.at(static_cast<std::size_t>(set))->host(index);
}

void Executor::set_feed(std::size_t index, const Tensor& value, int set) {
  const plan::Feed& feed = plan_->feeds.at(index);
  const TensorType type{value.shape(), value.dtype()};
  if (type != feed.type) {
    internal::fail_argument("run", "expected " + feed.type.to_string() + " for input '" +
                                       feed.name + "'. Received: " + type.to_string() + ".");
  }
  if (value.bytes() > 0) std::memcpy(this->feed(index, set), value.raw(), value.bytes());
}

void* Executor::address(const plan::Location& location, int set) const {
  using Kind = plan::Location::Kind;
  switch (location.kind) {
    case Kind::kArena:
      return static_cast<char*>(arena_->memory()->address()) + location.where;
    case Kind::kVariable:
      return plan_->variables[location.where]->storage->address();
    case Kind::kFeed:
      return feeds_[static_cast<std::size_t>(set)]->address(location.where);
    case Kind::kConstant:
      return static_cast<char*>(constants_->address()) + location.where;
  }
  return nullptr;
}

Launch Executor::launch(const plan::Step& step, int set) const {
  Launch launch;
  launch.kernel = step.kernel.get();
  for (const plan::Location& input : step.inputs) launch.inputs.push_back(address(input, set));
  for (const plan::Location& output : step.outputs) launch.outputs.push_back(address(output, set));
  launch.workspace = arena_->workspace()->address();
  return launch;
}

void Executor::bind() {
  if (bound_version_ == arena_->version()) return;
  sequences_.clear();
  used_ = workspace_used_ = 0;
  for (int set = 0; set < feed_sets(); ++set) {
    std::vector<Launch> launches;
    launches.reserve(plan_->steps.size());
    for (const plan::Step& step : plan_->steps) {
      launches.push_back(launch(step, set));
      measure(launches.back(), step);
    }
    sequences_.push_back(arena_->backend().sequence(std::move(launches)));
  }
  bound_version_ = arena_->version();
}

/// From the addresses and types that the kernel is given, not from what was planned.
void Executor::measure(const Launch& launch, const plan::Step& step) {
  const ir::Node& node = plan_->graph->node(step.node);
  const auto* begin = static_cast<const char*>(arena_->memory()->address());
  const char* end = begin + arena_->memory()->bytes();
  const auto look = [&](const void* operand, ir::ValueId value) {
    const auto* first = static_cast<const char*>(operand);
    if (std::less<>()(first, begin) || !std::less<>()(first, end)) return;
    const auto offset = static_cast<std::size_t>(first - begin);
    used_ = std::max(used_, plan::align_up(offset + plan_->graph->type(value).bytes()));
  };
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) look(launch.inputs[i], node.inputs[i]);
  for (std::size_t i = 0; i < launch.outputs.size(); ++i) look(launch.outputs[i], node.outputs[i]);
  workspace_used_ = std::max(workspace_used_, plan::align_up(launch.kernel->workspace_bytes()));
}

void Executor::run(int set) {
  bind();
  InputSet& feeds = *feeds_[static_cast<std::size_t>(set)];
  feeds.upload();
  sequences_[static_cast<std::size_t>(set)]->run();
  arena_->note_use(used_, workspace_used_);
  feeds.release();
}

std::vector<StepTime> Executor::run_timed(int set) {
  bind();
  Backend& backend = arena_->backend();
  std::vector<std::unique_ptr<LaunchSequence>> kernels;
  for (const plan::Step& step : plan_->steps) {
    kernels.push_back(backend.sequence({launch(step, set)}));
  }
  InputSet& feeds = *feeds_[static_cast<std::size_t>(set)];
  feeds.upload();
  backend.synchronize();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto now = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::vector<StepTime> times;
  times.reserve(kernels.size());
  for (const auto& kernel : kernels) {
    StepTime time{.begin = now()};
    kernel->run();
    backend.synchronize();
    time.end = now();
    times.push_back(time);
  }
  arena_->note_use(used_, workspace_used_);
  feeds.release();
  return times;
}

Tensor Executor::output(std::size_t index) const {
  const plan::Output& output = plan_->outputs.at(index);
  Tensor value(output.type.shape, output.type.dtype);
  using Kind = plan::Location::Kind;
  switch (output.location.kind) {
    case Kind::kArena:
      arena_->memory()->read(value.raw(), output.location.where, value.bytes());
      break;
    case Kind::kVariable:
      plan_->variables[output.location.where]->storage->read(value.raw(), 0, value.bytes());
      break;
    case Kind::kFeed:
      if (value.bytes() > 0) {
        std::memcpy(value.raw(), feeds_[0]->host(output.location.where), value.bytes());
      }
      break;
    case Kind::kConstant:
      constants_->read(value.raw(), output.location.where, value.bytes());
      break;
  }
  return value;
}

NonFinite Executor::non_finite_at(const plan::Step& step, bool is_nan) const {
  using Kind = plan::Location::Kind;
  const ir::Node& node = plan_->graph->node(step.node);
  NonFinite found{
      .layer = node.scope.layer, .op = node.op->name, .phase = node.scope.phase, .is_nan = is_nan};
  for (const plan::Location& input : step.inputs) {
    if (input.kind == Kind::kFeed) found.input = plan_->feeds[input.where].name;
    if (input.kind != Kind::kVariable) continue;
    const VariableState& variable = *plan_->variables[input.where];
    if (non_finite_kind(variable.read()) != 0) found.variable = variable.name;
  }
  return found;
}

void Executor::observe(const Look& look, int set) {
  bind();
  Backend& backend = arena_->backend();
  InputSet& feeds = *feeds_[static_cast<std::size_t>(set)];
  feeds.upload();
  feeds.release();
  for (const plan::Step& step : plan_->steps) {
    const ir::Node& node = plan_->graph->node(step.node);
    if (node.op->overwrites != nullptr || node.scope.phase == ir::Phase::kUpdate) continue;
    backend.sequence({launch(step, set)})->run();
    backend.synchronize();
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      const TensorType& type = plan_->graph->type(node.outputs[i]);
      if (!is_floating(type.dtype)) continue;
      Tensor value(type.shape, type.dtype);
      arena_->memory()->read(value.raw(), step.outputs[i].where, value.bytes());
      if (!look(step, i, value)) return;
    }
  }
}

std::optional<NonFinite> Executor::first_non_finite(int set) {
  std::optional<NonFinite> found;
  observe(
      [&](const plan::Step& step, std::size_t, const Tensor& value) {
        const int kind = non_finite_kind(value);
        if (kind != 0) found = non_finite_at(step, kind == 2);
        return kind == 0;
      },
      set);
  return found;
}

}  // namespace demi::runtime
