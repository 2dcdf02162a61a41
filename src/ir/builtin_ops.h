// The ops that are part of the graph itself rather than computations; no kernel runs for them:
// "input", "variable", "constant", and "layer_output", an identity that marks what a layer returns,
// so that autocast can bring it to the layer's compute dtype.
#pragma once

#include <string>

#include <demi/dtype.h>
#include <demi/shape.h>

namespace demi::ir {

/// A tensor whose elements all equal `value`. Kept in constant memory, filled before the first run.
struct ConstantAttributes {
  double value = 0;
  Shape shape;
  DType dtype = DType::kFloat32;
  friend bool operator==(const ConstantAttributes&, const ConstantAttributes&) = default;
};
std::string describe(const ConstantAttributes& attributes);

}  // namespace demi::ir
