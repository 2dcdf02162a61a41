// run_kernel: one op on a backend without a graph, for tests of single kernels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <demi/tensor.h>

#include "src/core/attributes.h"
#include "tests/support/op_harness.h"

namespace demi::testing {

struct KernelOptions {
  std::string device = test_device();
  int threads = 2;
  /// Instead of the device's.
  std::shared_ptr<Backend> backend = nullptr;
  /// Stores output 0 in another dtype than the op infers.
  std::optional<DType> store = std::nullopt;
  std::string* selected = nullptr;
};

/// The outputs of the kernel that the device's backend selects; its name goes to `selected` if that
/// is not null. Outputs that overwrite an input begin with its value, as they do in a plan. Fails
/// the test if no kernel accepts, and if the bits are others where the kernel writes over an input
/// that it may overwrite. Throws what infer throws.
[[nodiscard]] std::vector<Tensor> run_kernel(std::string_view op, const Attributes& attributes,
                                             const std::vector<const Tensor*>& inputs,
                                             KernelOptions options = {});

}  // namespace demi::testing
