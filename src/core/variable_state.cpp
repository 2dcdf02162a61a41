#include "src/core/variable_state.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "src/core/check.h"

namespace demi {
namespace {

/// [rows, columns] as [columns, rows], element by element of `size` bytes.
void transpose(const std::byte* from, std::byte* to, std::int64_t rows, std::int64_t columns,
               std::size_t size) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      std::memcpy(to + static_cast<std::size_t>(column * rows + row) * size,
                  from + static_cast<std::size_t>(row * columns + column) * size, size);
    }
  }
}

/// What a copy of a weight of this value holds.
Tensor copied_value(const Tensor& value, DType dtype, bool transposed) {
  Tensor converted = value.to(dtype);
  if (!transposed || value.shape().rank() == 0 || value.shape().elements() == 0) return converted;
  const std::int64_t columns = value.shape()[-1];
  Tensor result(transposed_shape(value.shape()), dtype);
  transpose(static_cast<const std::byte*>(converted.raw()), static_cast<std::byte*>(result.raw()),
            value.shape().elements() / columns, columns, size_of(dtype));
  return result;
}

}  // namespace

Shape transposed_shape(const Shape& shape) {
  if (shape.rank() == 0) return shape;
  std::vector<std::int64_t> extents = {shape[-1]};
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) extents.push_back(shape[axis]);
  return Shape(extents);
}

Tensor VariableState::read() const {
  Tensor value(type.shape, type.dtype);
  storage->read(value.raw(), 0, value.bytes());
  return value;
}

void VariableState::write(const Tensor& value) const {
  if (value.shape() != type.shape || value.dtype() != type.dtype) {
    internal::fail_argument("variable " + name,
                            "expected " + type.to_string() + ". Received: " +
                                TensorType{value.shape(), value.dtype()}.to_string() + ".");
  }
  storage->write(value.raw(), 0, value.bytes());
  for (const WeightCopy& copy : copies) {
    if (const auto state = copy.state.lock()) {
      state->write(copied_value(value, copy.dtype, copy.transposed));
    }
  }
}

std::shared_ptr<VariableState> VariableState::find_copy(DType dtype, bool transposed) const {
  for (const WeightCopy& copy : copies) {
    if (copy.dtype == dtype && copy.transposed == transposed) {
      if (auto found = copy.state.lock()) return found;
    }
  }
  return nullptr;
}

std::shared_ptr<VariableState> VariableState::copy(DType dtype, bool transposed) {
  if (auto found = find_copy(dtype, transposed)) return found;
  std::erase_if(copies, [](const WeightCopy& copy) { return copy.state.expired(); });
  auto made = make_variable_state(name, copied_value(read(), dtype, transposed),
                                  VariableRole::kWeightCopy, false);
  made->autocast = false;
  copies.push_back({dtype, transposed, made});
  return made;
}

std::shared_ptr<VariableState> make_variable_state(std::string name, const Tensor& value,
                                                   VariableRole role, bool trainable) {
  auto state = std::make_shared<VariableState>();
  state->name = std::move(name);
  state->type = {value.shape(), value.dtype()};
  state->role = role;
  state->trainable = trainable;
  state->storage = allocate_host_memory(value.bytes());
  state->storage->write(value.raw(), 0, value.bytes());
  return state;
}

}  // namespace demi
