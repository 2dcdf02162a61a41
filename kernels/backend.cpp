#include "kernels/backend.h"

namespace demi {

std::vector<std::size_t> input_offsets(const std::vector<std::size_t>& bytes) {
  std::vector<std::size_t> offsets = {0};
  for (const std::size_t size : bytes) {
    offsets.push_back(offsets.back() +
                      (size + kInputAlignment - 1) / kInputAlignment * kInputAlignment);
  }
  return offsets;
}

}  // namespace demi
