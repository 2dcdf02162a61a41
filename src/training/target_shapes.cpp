#include "src/training/target_shapes.h"

#include <string>

#include <demi/ops/cast.h>
#include <demi/ops/movement.h>

#include "src/core/check.h"

namespace demi::internal {
namespace {

Shape without_last(const Shape& shape) {
  return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 1)));
}

bool ends_in_one(const Shape& shape) {
  return shape.rank() > 0 && shape[-1] == 1;
}

std::string describe(const SymbolicTensor& tensor) {
  return std::string(to_string(tensor.dtype())) + tensor.shape().to_string();
}

}  // namespace

bool compatible(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a[axis] != b[axis] && a[axis] != Shape::kUnknown && b[axis] != Shape::kUnknown) {
      return false;
    }
  }
  return true;
}

SymbolicTensor match_targets(const SymbolicTensor& y_true, const SymbolicTensor& y_pred,
                             const char* where) {
  const Shape have = y_true.shape();
  const Shape want = y_pred.shape();
  const SymbolicTensor values = ops::cast(y_true, y_pred.dtype());
  if (compatible(have, want)) return values;
  const bool lacks_axis = ends_in_one(want) && compatible(have, without_last(want));
  const bool has_extra_axis = ends_in_one(have) && compatible(without_last(have), want);
  if (lacks_axis || has_extra_axis) return ops::reshape(values, want);
  std::string message = "expected targets of the shape of the prediction, " + want.to_string() +
                        ". Received: " + describe(y_true) + ".";
  if (!is_floating(y_true.dtype()) && have.rank() < want.rank()) {
    message += " For integer class labels use sparse_categorical_crossentropy.";
  }
  fail_argument(where, message);
}

SymbolicTensor match_labels(const SymbolicTensor& y_true, const SymbolicTensor& y_pred,
                            const char* where) {
  const Shape have = y_true.shape();
  if (y_pred.shape().rank() < 2) {
    fail_argument(where,
                  "expected predictions [n, ..., classes]. Received: " + describe(y_pred) + ".");
  }
  const Shape want = without_last(y_pred.shape());
  const bool has_extra_axis = ends_in_one(have) && compatible(without_last(have), want);
  if (is_floating(y_true.dtype()) || !(has_extra_axis || compatible(have, want))) {
    std::string message = "expected integer labels " + want.to_string() + " for predictions " +
                          y_pred.shape().to_string() + ". Received: " + describe(y_true) + ".";
    if (compatible(have, y_pred.shape()))
      message += " For one-hot targets use categorical_crossentropy.";
    fail_argument(where, message);
  }
  return has_extra_axis ? ops::reshape(y_true, want) : y_true;
}

}  // namespace demi::internal
