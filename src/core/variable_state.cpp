#include "src/core/variable_state.h"

#include <utility>

#include "src/core/check.h"

namespace demi {

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
