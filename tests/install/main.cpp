#include <iostream>
#include <stdexcept>
#include <vector>

#include <demi/tensor.h>

int main() {
  const demi::Tensor tensor = demi::Tensor::from(std::vector<float>{1.0f, 2049.0f}, {2});
  std::cout << tensor.to(demi::float16) << "\n";
  try {
    static_cast<void>(demi::parse_dtype("float17"));
  } catch (const std::invalid_argument& error) {
    std::cout << error.what() << "\n";
  }
}
