// vgg8: stacked 3×3 convolutions for small images.
//
// K. Simonyan, A. Zisserman, "Very deep convolutional networks for large-scale image recognition"
// (ICLR 2015): its blocks of equal convolutions with twice the filters after each pooling, as many
// as small images allow.
#pragma once

#include <demi/demi.h>

namespace demi::models {

/// Two 3×3 convolutions with 64, with 128 and with 256 filters, each pair followed by max-pooling;
/// dense 256 relu, dense softmax. Made for images [32, 32, 3]; also takes [28, 28, 1] or any others
/// of at least 8 × 8. Layers take the global policy.
[[nodiscard]] Model vgg8(const Shape& image_shape = {28, 28, 1}, int classes = 10);

}  // namespace demi::models
