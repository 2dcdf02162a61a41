// refuse: how an op's infer says that its inputs do not fit.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/core/tensor_type.h"

namespace demi::ir {

/// Throws std::invalid_argument "[op] expected <expected>. Received: float32[2, 3] and int32[4]."
[[noreturn]] void refuse(std::string_view op, std::string_view expected,
                         std::span<const TensorType> received);

}  // namespace demi::ir
