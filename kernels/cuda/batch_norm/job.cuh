// A request of the family batch_norm, without what differs between its ops.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <demi/ops/batch_norm.h>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/batch_norm/layout.cuh"
#include "kernels/cuda/registry.h"

namespace demi::cuda::batch_norm {

struct Job {
  Layout layout;
  double epsilon;
  bool relu;
  std::vector<DType> inputs;  ///< dtypes
  Context& context;

  [[nodiscard]] cudaStream_t stream() const { return context.stream(); }
  /// Doubles that the chunks' sums take.
  [[nodiscard]] std::int64_t partials() const {
    return std::int64_t{layout.chunks} * 2 * layout.channels;
  }
  /// Input `index`, a value per channel.
  [[nodiscard]] AnyInput parameter(const KernelArguments& arguments, std::size_t index) const {
    return {arguments.inputs[index], inputs[index]};
  }
};

/// A kernel that calls select(type tag, packet length)(job, arguments), the tag's type storing x,
/// which is input `x_index`. Its workspace holds the chunks' sums and then `arrays` arrays of a
/// value per channel in the type that is computed in; it makes three launches. Without arrays there
/// is no workspace and one launch.
template <class Select>
[[nodiscard]] std::unique_ptr<Kernel> make(const KernelRequest& request, Context& context,
                                           std::string& reason, std::size_t x_index, int arrays,
                                           Select select) {
  const TensorType& x = request.inputs[x_index];
  if (request.inputs[0].dtype != x.dtype || request.outputs[0].dtype != x.dtype) {
    reason = "it computes tensors of one dtype";
    return nullptr;
  }
  const auto& attributes = request.attributes.as<ops::BatchNormAttributes>();
  return dispatch_floating(x.dtype, reason, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    constexpr int kLength = kPacketLength<T>;
    Job job{Layout::of(x.shape, kLength),
            attributes.epsilon,
            attributes.activation == ops::Activation::kRelu,
            {},
            context};
    for (const TensorType& input : request.inputs) job.inputs.push_back(input.dtype);
    const std::int64_t bytes = arrays == 0
                                   ? 0
                                   : job.partials() * static_cast<std::int64_t>(sizeof(double)) +
                                         arrays * std::int64_t{job.layout.channels} *
                                             static_cast<std::int64_t>(sizeof(Compute<T>));
    const auto run = job.layout.length == kLength
                         ? select(tag, std::integral_constant<int, kLength>{})
                         : select(tag, std::integral_constant<int, 1>{});
    return make_kernel(
        "packets", static_cast<std::size_t>(bytes),
        [job, run](const KernelArguments& arguments) { run(job, arguments); }, arrays == 0 ? 1 : 3);
  });
}

}  // namespace demi::cuda::batch_norm
