// The passes of a compilation, in the order in which they run. Each is a free function that
// rewrites the graph and leaves it valid (ir::verify).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "src/ir/graph.h"

namespace demi::passes {

/// Lets cross-entropy losses of a softmax read the softmax's input as logits: exact where the
/// probabilities themselves would have been rounded or clipped. Runs before autocast.
void use_logits(ir::Graph& graph);

/// Inserts the casts that make every op run in the dtype that its rule and the compute dtype of its
/// layer ask for. Afterwards all floating inputs of a kPromote op agree. Equal casts are shared.
void autocast(ir::Graph& graph);

/// A value and d loss / d value, where differentiation starts.
struct Seed {
  SymbolicTensor value;
  SymbolicTensor gradient;
};

/// Adds the backward half for a loss given by `seeds`: d loss / d v for each value v of `targets`,
/// in their order and dtypes; an empty SymbolicTensor where the loss does not depend on v.
std::vector<SymbolicTensor> differentiate(ir::Graph& graph, const std::vector<Seed>& seeds,
                                          const std::vector<SymbolicTensor>& targets);

/// Adds the backward half: d loss / d v for each variable v of `variables`, in their order and
/// dtypes; an empty SymbolicTensor where the loss does not depend on v. `loss` must be a scalar.
/// Throws std::invalid_argument if the loss depends on none of them.
std::vector<SymbolicTensor> differentiate(
    ir::Graph& graph, const SymbolicTensor& loss,
    const std::vector<std::shared_ptr<VariableState>>& variables);

/// Makes the state updates that layers wrote (moving averages) conditional on `finite`, so that a
/// skipped step leaves them bit-identical, and moves them behind it.
void guard_updates(ir::Graph& graph, const SymbolicTensor& finite);

/// Removes what has no effect: casts to the same dtype or there and back, casts that the op before
/// can store itself, repeated computations, multiplication by one, dead nodes.
void simplify(ir::Graph& graph);

/// Makes float32 of every value that is computed in 16 bits, so that the graph shows what those
/// would be without rounding, overflow and flushing to zero; variables and inputs keep their dtypes
/// and are read through casts. Returns the values that were changed and the dtypes that they had.
/// Runs last; leaves casts of float32 to itself for simplify.
std::map<ir::ValueId, DType> widen(ir::Graph& graph);

/// Lets steps read weights through copies in the compute dtype, and filters in the order that the
/// backend wants, which are kept up to date instead of being made anew. Before fuse.
void keep_weight_copies(ir::Graph& graph, const Capabilities& capabilities);

/// Merges neighbours into ops that the backend has fused kernels for.
void fuse(ir::Graph& graph, const Capabilities& capabilities);

/// The values that the backward half reads of the forward half and that could be computed again
/// instead: of several that share bytes the first. Not among them are versions of variables, their
/// copies in the compute dtype, feeds, and results much smaller than what they are computed from
/// (statistics).
[[nodiscard]] std::vector<ir::ValueId> recomputable(const ir::Graph& graph);

/// The backward half no longer reads the values `dropped`, a part of recomputable(graph), but
/// copies that are computed just before their first use from those that are kept: by the same ops
/// with the same attributes on the same operands, so by the same kernels to the same bits, dropout
/// included. Runs last: a copy must not be merged with what it repeats.
void recompute(ir::Graph& graph, const std::vector<ir::ValueId>& dropped);

/// What recompute() made of a graph.
struct Recomputation {
  std::vector<ir::NodeId> nodes;  ///< forward nodes that run again in the backward half
  double work = 0;                ///< theirs: moved elements or, where they weigh more, products
  double forward_work = 0;        ///< that of the forward half
};
[[nodiscard]] Recomputation recomputation_of(const ir::Graph& graph);

/// A part of recomputable(graph) with which bytes(graph after recompute) <= limit, chosen so that
/// what is dropped costs little work for the bytes that it frees, and that nothing could be left
/// out of it; empty if the graph fits as it is. Where nothing fits: what needs the fewest bytes.
[[nodiscard]] std::vector<ir::ValueId> choose_recomputation(
    const ir::Graph& graph, std::size_t limit,
    const std::function<std::size_t(const ir::Graph&)>& bytes);

}  // namespace demi::passes
