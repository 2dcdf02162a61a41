#include "src/layers/pooling2d.h"

#include <fmt/format.h>

#include "src/core/check.h"

namespace demi::internal {

void check_pooling(const ops::Pool2DOptions& options, const std::string& where) {
  for (const auto& size : {options.pool_size, options.strides}) {
    if (size[0] >= 1 && size[1] >= 1) continue;
    fail_argument(where, fmt::format("expected pool_size and strides >= 1. Received: [{}, {}].",
                                     size[0], size[1]));
  }
}

void check_images(const Shape& shape, const std::string& where) {
  if (shape.rank() == 4) return;
  fail_argument(where,
                fmt::format("expected a 4-D input [N, H, W, C]. Received: {}.", shape.to_string()));
}

}  // namespace demi::internal
