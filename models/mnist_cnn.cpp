#include "models/mnist_cnn.h"

namespace demi::models {

Model mnist_cnn(const Shape& image_shape, int classes) {
  return Sequential(
      {
          Input(image_shape),
          Conv2D({.filters = 32, .kernel_size = {3, 3}, .activation = "relu"}),
          MaxPooling2D(),
          Conv2D({.filters = 64, .kernel_size = {3, 3}, .activation = "relu"}),
          MaxPooling2D(),
          Flatten(),
          Dense({.units = 128, .activation = "relu"}),
          Dense({.units = classes, .activation = "softmax"}),
      },
      {.name = "mnist_cnn"});
}

}  // namespace demi::models
