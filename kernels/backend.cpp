#include "kernels/backend.h"

#include <array>
#include <string>

#include <demi/error.h>

#include "src/core/check.h"

namespace demi {

std::shared_ptr<Backend> make_backend(std::string_view device, int threads) {
  constexpr std::array<std::string_view, 3> kDevices = {"auto", "cpu", "gpu"};
  if (threads < 0) {
    internal::fail_argument(
        "device", "expected a number of threads >= 0. Received: " + std::to_string(threads) + ".");
  }
  if (device == "cpu" || device == "auto") return make_cpu_backend(threads);
  if (device == "gpu") {
    throw DeviceError("[device] expected a GPU. Received: this build of demi has no GPU backend.");
  }
  internal::fail_argument("device", "expected 'auto', 'cpu' or 'gpu'. Received: '" +
                                        std::string(device) + "'." +
                                        internal::did_you_mean(device, kDevices));
}

}  // namespace demi
