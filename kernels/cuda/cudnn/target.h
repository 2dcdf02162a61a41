// Target: what cuDNN plans for, a GPU that is there or the description of one.
#pragma once

#include <optional>

#include "kernels/cuda/context.h"
#include "kernels/cuda/cudnn/descriptor.h"

namespace demi::cuda::cudnn {

class Target {
 public:
  /// Throws DeviceError if cuDNN does not take the context's description of a device.
  explicit Target(Context& context);

  /// Null without a device.
  [[nodiscard]] cudnnHandle_t handle() const { return handle_; }

  /// Binds a descriptor to the target, by whichever of the two attributes applies.
  void bind(Descriptor& descriptor, Descriptor::Name handle, Descriptor::Name description) const;
  /// The same for descriptors that need nothing where there is a device.
  void describe(Descriptor& descriptor, Descriptor::Name description) const;

 private:
  cudnnHandle_t handle_ = nullptr;
  std::optional<Descriptor> description_;
};

}  // namespace demi::cuda::cudnn
