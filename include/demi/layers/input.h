// Input: where a model begins.
#pragma once

#include <string>

#include <demi/dtype.h>
#include <demi/shape.h>
#include <demi/symbolic_tensor.h>

namespace demi {

struct InputOptions {
  std::string name = {};  ///< "": automatic, "input_layer", "input_layer_1", …
  DType dtype = DType::kFloat32;
};

/// A value of shape [batch, ...shape] with an unknown batch extent; `shape` is that of one sample.
/// Layers cast it to their compute dtype. Throws std::invalid_argument for unknown extents or a
/// name with '/'.
[[nodiscard]] SymbolicTensor Input(const Shape& shape, const InputOptions& options = {});

}  // namespace demi
