// Kernels that are run once, or timed, before one of them is chosen.
#pragma once

#include <string>

#include "kernels/cuda/context.h"
#include "kernels/kernel.h"

namespace demi::cuda {

/// Why a kernel cannot do on the device what it was made for; "" if it can. It runs on zeros in
/// memory of its own. Waits for the stream.
[[nodiscard]] std::string failure_of(Kernel& kernel, const KernelRequest& request,
                                     Context& context);

/// Whether `rival` does a request in less time than `first`, by more than two measurements of the
/// same kernel differ, or in as much time with less workspace. False, with a message on stderr, if
/// there is too little memory to try, and if the rival fails. Remembered (Context::tuned_engines).
/// Waits for the stream.
[[nodiscard]] bool is_faster(Kernel& rival, Kernel& first, const KernelRequest& request,
                             Context& context);

}  // namespace demi::cuda
