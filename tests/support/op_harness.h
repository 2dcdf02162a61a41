// Runs small graphs of demi::ops on every device, for the tests of ops.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <demi/symbolic_tensor.h>
#include <demi/tensor.h>

#include "kernels/backend.h"
#include "src/core/tensor_type.h"
#include "tests/support/compare.h"

namespace demi::testing {

/// Builds outputs from inputs with demi::ops.
using GraphFunction =
    std::function<std::vector<SymbolicTensor>(const std::vector<SymbolicTensor>& inputs)>;

/// The devices that tests run on in this process: "cpu", or the one that DEMI_TEST_DEVICE names.
/// The test runner runs the programs once for each device.
[[nodiscard]] std::vector<std::string> test_devices();
/// The first of them.
[[nodiscard]] std::string test_device();
/// The backend of such a device; `threads` matters for the CPU only.
[[nodiscard]] std::shared_ptr<Backend> test_backend(const std::string& device, int threads = 2);

struct RunOptions {
  std::string device = test_device();
  int threads = 2;
  /// Compute dtype in whose scope the function is traced; autocast runs with it. Unset: the dtype
  /// of the first floating input.
  std::optional<DType> compute_dtype = std::nullopt;
  bool simplify = false;
  bool fuse = false;
};

/// The values of function(inputs).
[[nodiscard]] std::vector<Tensor> run(const GraphFunction& function,
                                      const std::vector<Tensor>& inputs,
                                      const RunOptions& options = {});

/// The value of function(inputs), which has one output.
[[nodiscard]] Tensor run_one(
    const std::function<SymbolicTensor(const std::vector<SymbolicTensor>&)>& function,
    const std::vector<Tensor>& inputs, const RunOptions& options = {});

/// The arguments as a vector (an initializer list would copy).
template <class... Tensors>
[[nodiscard]] std::vector<Tensor> tensors(Tensors... values) {
  std::vector<Tensor> list;
  list.reserve(sizeof...(values));
  (list.push_back(std::move(values)), ...);
  return list;
}

/// The optimised graph of function(inputs) as text.
[[nodiscard]] std::string printed_graph(const GraphFunction& function,
                                        const std::vector<TensorType>& inputs,
                                        const RunOptions& options = {});

/// sum_o <weights[o], d output[o] / d input[i]> for each floating input i, with given weights (one
/// per floating output, of its shape and dtype); integer inputs give an empty tensor.
[[nodiscard]] std::vector<Tensor> gradients(const GraphFunction& function,
                                            const std::vector<Tensor>& inputs,
                                            const std::vector<Tensor>& weights,
                                            const RunOptions& options = {});

/// Checks gradients of float64 inputs against central differences on every device. Step 1e-6 ·
/// scale, tolerance relative to the largest gradient entry.
void expect_gradients(const GraphFunction& function, const std::vector<Tensor>& inputs,
                      double tolerance = 1e-6, const RunOptions& options = {});

}  // namespace demi::testing
