// resnet20: the residual network for small images.
//
// K. He, X. Zhang, S. Ren, J. Sun, "Deep residual learning for image recognition" (CVPR 2016),
// section 4.2 with n = 3, and shortcuts of option B: a 1×1 convolution where the shape changes.
#pragma once

#include <demi/demi.h>

namespace demi::models {

/// Three stages of three blocks with 16, 32 and 64 filters, global average pooling, dense softmax.
/// Made for images [32, 32, 3]; also takes [28, 28, 1] or any others of at least 4 × 4. Layers take
/// the global policy.
[[nodiscard]] Model resnet20(const Shape& image_shape = {28, 28, 1}, int classes = 10);

}  // namespace demi::models
