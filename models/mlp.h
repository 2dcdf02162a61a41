// mlp: a fully connected network.
#pragma once

#include <demi/demi.h>

namespace demi::models {

/// Flatten, two dense layers of 256 relu, dense softmax on images of `image_shape` [h, w, c].
/// Layers take the global policy.
[[nodiscard]] Model mlp(const Shape& image_shape = {28, 28, 1}, int classes = 10);

}  // namespace demi::models
