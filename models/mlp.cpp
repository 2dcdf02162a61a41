#include "models/mlp.h"

namespace demi::models {

Model mlp(const Shape& image_shape, int classes) {
  return Sequential(
      {
          Input(image_shape),
          Flatten(),
          Dense({.units = 256, .activation = "relu", .kernel_initializer = "he_normal"}),
          Dense({.units = 256, .activation = "relu", .kernel_initializer = "he_normal"}),
          Dense({.units = classes, .activation = "softmax"}),
      },
      {.name = "mlp"});
}

}  // namespace demi::models
