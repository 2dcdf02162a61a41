// OpDef: everything that is true of one op on every device.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <demi/symbolic_tensor.h>

#include "src/core/attributes.h"
#include "src/core/tensor_type.h"

namespace demi::ir {

struct Node;

/// In which dtype the autocast pass makes an op (or one of its inputs) run. Integers are never
/// cast.
enum class AutocastRule {
  kLowPrecision,  ///< the compute dtype of the surrounding layer
  kFloat32,       ///< at least float32 (float64 under a float64 policy)
  kPromote,       ///< the widest of the floating inputs; a variable counts as the compute dtype
  kKeep,          ///< whatever it is
};

struct InferContext {
  std::span<const TensorType> inputs;
  const Attributes& attributes;
};

/// Handed to OpDef::gradient. All members are values of the graph being differentiated.
struct GradientContext {
  std::span<const SymbolicTensor> inputs;
  std::span<const SymbolicTensor> outputs;
  /// d loss / d output; an empty SymbolicTensor where the loss does not depend on that output. At
  /// least one is present.
  std::span<const SymbolicTensor> output_gradients;
  /// Whether anybody wants d loss / d inputs[i]; others may be left empty.
  const std::vector<bool>& needed;
  const Attributes& attributes;
};

/// Output `output` overwrites the storage of input `input`, which must be a version of a variable.
struct Overwrite {
  int input;
  int output;
};

/// Output 0 is zero but where the elements of input `values` stand, element i at the place in
/// window i that element i of input `places` names; windows as of the node's Pool2DAttributes. What
/// falls on the same place adds up. See Note [Structural zeros] in ir/structural_zeros.h.
struct Scatter {
  int values;
  int places;
};

enum class StoreRule {
  kInferred,      ///< only as infer says
  kAccumulation,  ///< also as the accumulation dtype: float32 results of float16 operands
  kAnyFloating,   ///< as any floating dtype
};

struct OpDef {
  std::string name;

  /// Output types. Throws std::invalid_argument "[name] expected …. Received: …." on misuse.
  /// Extents may be Shape::kUnknown. Floating inputs of different dtypes are accepted and promoted;
  /// the autocast pass later makes them equal.
  std::vector<TensorType> (*infer)(const InferContext&) = nullptr;

  AutocastRule autocast = AutocastRule::kPromote;
  /// Rules of single inputs where they differ from `autocast` (input i; missing: `autocast`).
  std::vector<AutocastRule> input_autocast = {};

  /// Writes the backward nodes with demi::ops and returns one gradient per input (empty where not
  /// needed or zero), each of its input's dtype. Null: not differentiable, gradients stop here.
  std::vector<SymbolicTensor> (*gradient)(const GradientContext&) = nullptr;

  /// State updates; null for pure ops. A node with overwrites is never removed as dead.
  std::vector<Overwrite> (*overwrites)(const Node&) = nullptr;

  /// Output 0 is the bytes of input 0 under another shape (reshape): no kernel runs.
  bool is_view = false;

  /// Output 0 may be written into the buffer of one of these inputs when that dies here and has as
  /// many elements of the same size: the kernels read element i before they write element i.
  std::vector<int> reusable_inputs = {};

  /// Multiply-adds of one evaluation, where they outweigh reading and writing the operands; null:
  /// they do not. Extents are known.
  double (*multiply_adds)(const InferContext&) = nullptr;

  /// Where the zeros of output 0 are, for nodes whose op knows that of any data; null: of none.
  std::optional<Scatter> (*scatter)(const Node&) = nullptr;

  /// Output 0 is input 0, its only input, times a constant, element by element and but for
  /// rounding.
  bool elementwise_linear = false;

  /// In which dtypes kernels can store output 0 at no cost. A following cast to one of them is
  /// folded into the op by the simplify pass.
  StoreRule store = StoreRule::kInferred;

  [[nodiscard]] AutocastRule rule_of_input(std::size_t index) const {
    return index < input_autocast.size() ? input_autocast[index] : autocast;
  }
};

/// Whether kernels of `op` can store output 0 as `dtype` where infer says `inferred`.
[[nodiscard]] inline bool can_store(const OpDef& op, DType inferred, DType dtype) {
  if (op.store == StoreRule::kInferred || !is_floating(dtype)) return dtype == inferred;
  return op.store == StoreRule::kAnyFloating || dtype == inferred ||
         dtype == accumulation_dtype(inferred);
}

}  // namespace demi::ir
