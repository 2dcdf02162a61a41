// VariableState: what every copy of one demi::Variable shares.
#pragma once

#include <memory>
#include <string>

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
};

struct VariableState {
  std::string name;  ///< path, "conv2d/kernel"; unique within a model
  TensorType type;
  VariableRole role = VariableRole::kWeight;
  bool trainable = true;
  bool autocast = true;  ///< read in the compute dtype of the layer that uses it
  std::shared_ptr<DeviceMemory> storage;

  /// The value, copied to the host.
  [[nodiscard]] Tensor read() const;
  /// Replaces the value. Throws std::invalid_argument unless shape and dtype are the variable's.
  void write(const Tensor& value) const;
};

/// A variable in host memory holding `value`.
[[nodiscard]] std::shared_ptr<VariableState> make_variable_state(std::string name,
                                                                 const Tensor& value,
                                                                 VariableRole role,
                                                                 bool trainable = true);

}  // namespace demi
