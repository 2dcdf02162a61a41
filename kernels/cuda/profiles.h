// The device profiles that are built in: one per file kernels/cuda/profiles/<name>.json.
#pragma once

#include <string>
#include <vector>

namespace demi::cuda {

struct Profile {
  std::string name;  ///< "h200"
  std::string json;  ///< as cuDNN's deviceless planning takes it
};

[[nodiscard]] const std::vector<Profile>& profiles();

}  // namespace demi::cuda
