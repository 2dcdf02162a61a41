#include "models/vgg8.h"

namespace demi::models {

Model vgg8(const Shape& image_shape, int classes) {
  const SymbolicTensor image = Input(image_shape);
  SymbolicTensor x = image;
  for (const int filters : {64, 128, 256}) {
    for (int i = 0; i < 2; ++i) {
      x = Conv2D({.filters = filters,
                  .kernel_size = 3,
                  .padding = "same",
                  .activation = "relu",
                  .kernel_initializer = "he_normal"})(x);
    }
    x = MaxPooling2D()(x);
  }
  x = Flatten()(x);
  x = Dense({.units = 256, .activation = "relu", .kernel_initializer = "he_normal"})(x);
  x = Dense({.units = classes, .activation = "softmax"})(x);
  return Model(image, x, {.name = "vgg8"});
}

}  // namespace demi::models
