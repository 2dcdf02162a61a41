// What the tests of the family binary share: the operations with their references, and broadcasting
// by its definition.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <demi/ops/binary.h>

#include "tests/support/op_harness.h"

namespace demi::testing::binary {

inline constexpr DType kFloating[] = {float32, float16, bfloat16, float64};

using PairFunction = SymbolicTensor (*)(const SymbolicTensor&, const SymbolicTensor&);

struct PairOp {
  const char* name;
  PairFunction function;
  double (*reference)(double, double);
  double low, high;  ///< of both inputs
};

inline const PairOp kArithmetic[] = {
    {"add", ops::add, [](double a, double b) { return a + b; }, -2, 2},
    {"subtract", ops::subtract, [](double a, double b) { return a - b; }, -2, 2},
    {"multiply", ops::multiply, [](double a, double b) { return a * b; }, -2, 2},
    {"divide", ops::divide, [](double a, double b) { return a / b; }, 0.5, 2},
    {"maximum", ops::maximum, [](double a, double b) { return a < b ? b : a; }, -2, 2},
    {"minimum", ops::minimum, [](double a, double b) { return b < a ? b : a; }, -2, 2},
    {"power", ops::power, [](double a, double b) { return std::pow(a, b); }, 0.5, 2},
};

struct ShapePair {
  Shape a, b;
};

/// Element by element, walking the index of each output element digit by digit.
template <class Function>
std::vector<double> broadcast_reference(const std::vector<Tensor>& inputs, const Shape& shape,
                                        Function function) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    std::vector<double> values;
    for (const Tensor& input : inputs) {
      std::int64_t rest = i, offset = 0, stride = 1;
      for (int axis = -1; axis >= -shape.rank(); --axis) {
        const std::int64_t index = rest % shape[axis];
        rest /= shape[axis];
        if (axis < -input.shape().rank()) continue;
        if (input.shape()[axis] != 1) offset += index * stride;
        stride *= input.shape()[axis];
      }
      values.push_back(input.at(offset));
    }
    result.push_back(function(values));
  }
  return result;
}

}  // namespace demi::testing::binary
