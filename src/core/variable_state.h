// VariableState: what every copy of one demi::Variable shares.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <demi/tensor.h>

#include "src/core/device_memory.h"
#include "src/core/tensor_type.h"

namespace demi {

/// Who a variable belongs to; decides its memory category and whether weight files hold it.
enum class VariableRole {
  kWeight,         ///< created by a layer, trainable or not
  kOptimizerSlot,  ///< moments, accumulators, averages
  kStepState,      ///< counters, loss scale, learning rate, metric sums
  kData,           ///< a whole array of a data set, of which steps take rows
  kWeightCopy,     ///< a weight as kernels read it: derived, in no file
};

struct VariableState;

/// The shape of a tensor whose innermost axis has become the outermost one.
[[nodiscard]] Shape transposed_shape(const Shape& shape);

/// A copy of a weight in another dtype, or transposed: its innermost axis is the outermost. Whoever
/// overwrites the weight brings it up to date: VariableState::write, and on a device the nodes that
/// the pass keep_weight_copies adds.
struct WeightCopy {
  DType dtype = DType::kFloat32;
  bool transposed = false;
  /// Of the steps that read it: without any the copy is gone.
  std::weak_ptr<VariableState> state;
};

struct VariableState {
  std::string name;  ///< path, "conv2d/kernel"; unique within a model
  TensorType type;
  VariableRole role = VariableRole::kWeight;
  bool trainable = true;
  bool autocast = true;  ///< read in the compute dtype of the layer that uses it
  std::shared_ptr<DeviceMemory> storage;
  std::vector<WeightCopy> copies;

  /// The value, copied to the host.
  [[nodiscard]] Tensor read() const;
  /// Replaces the value, also in the copies. Throws std::invalid_argument unless shape and dtype
  /// are the variable's.
  void write(const Tensor& value) const;

  /// The copy of that dtype and order, or null.
  [[nodiscard]] std::shared_ptr<VariableState> find_copy(DType dtype, bool transposed) const;
  /// The same, made of the current value if there is none.
  [[nodiscard]] std::shared_ptr<VariableState> copy(DType dtype, bool transposed);
};

/// A variable in host memory holding `value`.
[[nodiscard]] std::shared_ptr<VariableState> make_variable_state(std::string name,
                                                                 const Tensor& value,
                                                                 VariableRole role,
                                                                 bool trainable = true);

}  // namespace demi
