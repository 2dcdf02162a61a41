#include "kernels/cuda/cudnn/target.h"

#include <span>
#include <string>

namespace demi::cuda::cudnn {

Target::Target(Context& context) {
  if (context.has_device()) {
    handle_ = context.cudnn();
    return;
  }
  const std::string& json = context.properties().cudnn_json;
  description_.emplace(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  description_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                    std::span<const char>(json.data(), json.size()));
  description_->finalize();
}

void Target::bind(Descriptor& descriptor, Descriptor::Name handle,
                  Descriptor::Name description) const {
  if (handle_ != nullptr) {
    descriptor.set(handle, handle_);
  } else {
    descriptor.set(description, *description_);
  }
}

void Target::describe(Descriptor& descriptor, Descriptor::Name description) const {
  if (description_) descriptor.set(description, *description_);
}

}  // namespace demi::cuda::cudnn
