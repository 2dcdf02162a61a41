// Plan: the immutable result of a compilation. A plan exists before anything is allocated.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <demi/memory.h>

#include "kernels/backend.h"
#include "src/ir/graph.h"

namespace demi::plan {

/// Where a value is during a run.
struct Location {
  enum class Kind { kArena, kVariable, kFeed, kConstant };
  Kind kind = Kind::kArena;
  /// Arena, constant: byte offset. Variable, feed: index into Plan::variables, Plan::feeds.
  std::size_t where = 0;
};

/// One range of the arena, shared by values that alias.
struct Buffer {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  int first_step = 0;
  int last_step = 0;
  BufferKind kind = BufferKind::kTemporary;
  /// The values stored in it: the first, then those that alias it, in the order in which they are
  /// produced.
  std::vector<ir::ValueId> values;
  std::string layer;

  [[nodiscard]] ir::ValueId value() const { return values.front(); }
};

struct Step {
  ir::NodeId node = -1;
  std::shared_ptr<Kernel> kernel;
  std::vector<KernelSelection::Refusal> refusals;  ///< candidates that came before the chosen one
  std::vector<Location> inputs;
  std::vector<Location> outputs;
};

struct Feed {
  std::string name;
  TensorType type;
};

struct Output {
  std::string name;
  TensorType type;
  Location location;
};

struct Constant {
  std::size_t offset = 0;
  ir::ValueId value = -1;
};

/// Bytes by use, from the plan alone. Categories are peaks over the step, so they may add up to
/// more than arena_bytes, where buffers of different categories take turns in one place.
struct MemorySummary {
  std::size_t activations = 0;
  std::size_t temporaries = 0;
  std::size_t gradients = 0;
  std::size_t compute_copies = 0;  ///< in the arena or beside it
  std::size_t kept_copies = 0;     ///< those beside it: copies of weights that outlive the step
  std::size_t workspace = 0;
  std::size_t arena = 0;  ///< all of the above but kept_copies, as laid out
  std::size_t feeds = 0;  ///< one set of input buffers
  std::size_t constants = 0;
};

struct Plan {
  std::shared_ptr<const ir::Graph> graph;
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
  std::vector<std::shared_ptr<VariableState>> variables;
  std::vector<Feed> feeds;
  std::vector<Output> outputs;
  std::vector<Constant> constants;
  std::size_t buffer_bytes = 0;     ///< the arena's buffers
  std::size_t workspace_bytes = 0;  ///< the largest kernel workspace
  std::size_t constant_bytes = 0;

  [[nodiscard]] std::size_t arena_bytes() const { return buffer_bytes + workspace_bytes; }
  [[nodiscard]] MemorySummary memory() const;
};

/// Selects a kernel for each node and an offset for each buffer. Throws std::invalid_argument
/// naming the op, the types and every candidate's reason if no kernel accepts a node. With
/// DEMI_VERBOSE=1 in the environment every choice and refusal is printed to stderr.
[[nodiscard]] std::shared_ptr<const Plan> make_plan(std::shared_ptr<const ir::Graph> graph,
                                                    Backend& backend);

/// The arena of a graph without its workspace, as make_plan lays it out; needs no backend.
[[nodiscard]] std::size_t buffer_bytes(const std::shared_ptr<const ir::Graph>& graph);

/// One line per step (op, kernel, types, layer) and per buffer; for tests and people.
[[nodiscard]] std::string to_string(const Plan& plan);

}  // namespace demi::plan
