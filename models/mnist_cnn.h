// mnist_cnn: the small convolutional network of the README.
#pragma once

#include <demi/demi.h>

namespace demi::models {

/// Conv 32 3×3 relu, pool, conv 64 3×3 relu, pool, dense 128 relu, dense 10 softmax on images of
/// `image_shape` [h, w, c]; 225,034 parameters for [28, 28, 1]. Layers take the global policy.
[[nodiscard]] Model mnist_cnn(const Shape& image_shape = {28, 28, 1}, int classes = 10);

}  // namespace demi::models
