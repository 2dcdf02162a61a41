// CallFrame: one layer being called on this thread; inner layers find the outer one through it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <demi/layer.h>
#include <demi/symbolic_tensor.h>

#include "src/ir/graph.h"

namespace demi::internal {

class CallFrame {
 public:
  /// The innermost one on this thread, or null.
  [[nodiscard]] static CallFrame* current();

  /// Calls `layer` outside of any other one: builds it if need be, and calls it in the graph of
  /// `inputs`, in a scope of its path and compute dtype. `key` tells this call of the layer from
  /// others; scalars passed to add_loss go to `losses`, if given. Throws std::invalid_argument,
  /// naming the layer, for inputs it does not take.
  static std::vector<SymbolicTensor> call(Layer& layer, const std::vector<SymbolicTensor>& inputs,
                                          const CallContext& context, std::uint64_t key,
                                          std::vector<SymbolicTensor>* losses);

  /// Calls `layer` inside the one of this frame and marks its results as a layer's.
  std::vector<SymbolicTensor> call_inner(Layer& layer, const std::vector<SymbolicTensor>& inputs);

  /// Makes a layer that is used inside this frame's layer a part of it. Does nothing for that layer
  /// itself and for one that has its place.
  void adopt(const Layer& inner);

  [[nodiscard]] ir::Graph& graph() const { return graph_; }
  [[nodiscard]] const Layer& layer() const { return layer_; }
  [[nodiscard]] std::uint64_t key() const { return key_; }
  void add_loss(const SymbolicTensor& loss);

  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;

 private:
  CallFrame(Layer& layer, ir::Graph& graph, const CallContext& context, std::uint64_t key,
            std::vector<SymbolicTensor>* losses);
  ~CallFrame();
  std::vector<SymbolicTensor> run(const std::vector<SymbolicTensor>& inputs);
  void build(const std::vector<SymbolicTensor>& inputs);

  Layer& layer_;
  ir::Graph& graph_;
  CallContext context_;
  std::uint64_t key_;
  std::uint64_t inner_calls_ = 0;
  std::vector<SymbolicTensor>* losses_;
  CallFrame* outer_;
};

/// `values` marked as results of a layer for the autocast pass; integers are left as they are.
[[nodiscard]] std::vector<SymbolicTensor> mark_layer_outputs(std::vector<SymbolicTensor> values);

}  // namespace demi::internal
