// Graph: an operation graph of cuDNN, of convolutions and what follows them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <demi/dtype.h>

#include "kernels/cuda/cudnn/descriptor.h"
#include "kernels/cuda/cudnn/target.h"

namespace demi::cuda::cudnn {

/// Geometry of a cross-correlation, {vertical, horizontal}.
struct Convolution {
  std::array<std::int64_t, 2> pad_before = {0, 0};
  std::array<std::int64_t, 2> pad_after = {0, 0};
  std::array<std::int64_t, 2> strides = {1, 1};
  std::array<std::int64_t, 2> dilation = {1, 1};
};

/// Packed [n, h, w, c]; a filter is [filters, kh, kw, channels / groups].
using Extents = std::array<std::int64_t, 4>;

/// Names a tensor of a graph, in a variant pack too.
using TensorId = std::int64_t;

/// Built by calls that add tensors and operations in order, then finalize()d once. All computing is
/// done in float32. Every member but finalize() throws DeviceError with cuDNN's explanation for
/// what it does not take.
class Graph {
 public:
  struct Tensor {
    TensorId id;
    std::size_t bytes;
  };

  /// Of what the context stands for, which must outlive the graph.
  explicit Graph(Context& context) : target_(context) {}

  /// A tensor in memory, aligned to 16 bytes. float32, float16 or bfloat16.
  TensorId tensor(const Extents& extents, DType dtype);
  /// A float32 value between two operations.
  TensorId intermediate(const Extents& extents);

  void convolve(const Convolution& geometry, TensorId x, TensorId filter, TensorId y);
  void convolve_backward_input(const Convolution& geometry, TensorId dy, TensorId filter,
                               TensorId dx);
  void convolve_backward_filter(const Convolution& geometry, TensorId x, TensorId dy, TensorId dw);
  /// y = a + b, b of a's extents or 1.
  void add(TensorId a, TensorId b, TensorId y);
  void relu(TensorId x, TensorId y);

  /// Completes the graph. False with cuDNN's reason if it does not take it.
  [[nodiscard]] bool finalize(std::string& reason);

  [[nodiscard]] const Descriptor& descriptor() const { return graph_; }
  [[nodiscard]] const Target& target() const { return target_; }
  /// The tensors in memory, in the order they were added.
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return in_memory_; }

 private:
  TensorId add_tensor(const Extents& extents, cudnnDataType_t type, bool is_virtual);
  const Descriptor& add_convolution(const Convolution& geometry);
  Descriptor& add_operation(cudnnBackendDescriptorType_t type);
  Descriptor& add_pointwise(cudnnPointwiseMode_t mode);
  [[nodiscard]] const Descriptor& at(TensorId id) const {
    return tensors_[static_cast<std::size_t>(id)];
  }

  Target target_;
  std::vector<Descriptor> tensors_;  ///< a tensor's id is its place here
  std::vector<Tensor> in_memory_;
  std::vector<Descriptor> details_;  ///< what operations refer to
  std::vector<Descriptor> operations_;
  Descriptor graph_{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
};

}  // namespace demi::cuda::cudnn
