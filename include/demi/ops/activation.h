// Activation: what is applied to a result before it is stored.
#pragma once

#include <string_view>

namespace demi::ops {

/// Epilogue of a matrix product, convolution or batch normalization. Only the fuse pass sets it.
enum class Activation { kNone, kRelu };

[[nodiscard]] constexpr std::string_view to_string(Activation activation) {
  return activation == Activation::kRelu ? "relu" : "none";
}

}  // namespace demi::ops
