#include "models/resnet20.h"

namespace demi::models {
namespace {

SymbolicTensor conv_norm(const SymbolicTensor& x, int filters, int kernel_size, int stride) {
  const SymbolicTensor y = Conv2D({.filters = filters,
                                   .kernel_size = kernel_size,
                                   .strides = stride,
                                   .padding = "same",
                                   .use_bias = false,
                                   .kernel_initializer = "he_normal"})(x);
  return BatchNormalization()(y);
}

SymbolicTensor block(const SymbolicTensor& x, int filters, int stride) {
  SymbolicTensor y = ReLU()(conv_norm(x, filters, 3, stride));
  y = conv_norm(y, filters, 3, 1);
  const bool keeps_shape = stride == 1 && x.shape()[-1] == filters;
  const SymbolicTensor shortcut = keeps_shape ? x : conv_norm(x, filters, 1, stride);
  return ReLU()(Add()({y, shortcut}));
}

}  // namespace

Model resnet20(const Shape& image_shape, int classes) {
  const SymbolicTensor image = Input(image_shape);
  SymbolicTensor x = ReLU()(conv_norm(image, 16, 3, 1));
  for (const int filters : {16, 32, 64}) {
    for (int i = 0; i < 3; ++i) {
      x = block(x, filters, i == 0 && filters > 16 ? 2 : 1);
    }
  }
  x = GlobalAveragePooling2D()(x);
  x = Dense({.units = classes, .activation = "softmax"})(x);
  return Model(image, x, {.name = "resnet20"});
}

}  // namespace demi::models
