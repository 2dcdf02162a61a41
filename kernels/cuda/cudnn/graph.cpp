#include "kernels/cuda/cudnn/graph.h"

#include "kernels/cuda/cudnn/data_type.h"
#include "src/core/check.h"

namespace demi::cuda::cudnn {
namespace {

/// Tensor cores load 16 bytes at a time.
constexpr std::int64_t kAlignment = 16;

}  // namespace

TensorId Graph::add_tensor(const Extents& extents, cudnnDataType_t type, bool is_virtual) {
  const auto& [n, h, w, c] = extents;
  const std::int64_t sizes[] = {n, c, h, w};
  const std::int64_t strides[] = {h * w * c, 1, w * c, c};
  const auto id = static_cast<TensorId>(tensors_.size());
  Descriptor& tensor = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(sizes));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(strides));
  if (is_virtual) tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  tensor.finalize();
  return id;
}

TensorId Graph::tensor(const Extents& extents, DType dtype) {
  const TensorId id = add_tensor(extents, data_type(dtype), false);
  const auto& [n, h, w, c] = extents;
  in_memory_.push_back({id, static_cast<std::size_t>(n * h * w * c) * size_of(dtype)});
  return id;
}

TensorId Graph::intermediate(const Extents& extents) {
  return add_tensor(extents, CUDNN_DATA_FLOAT, true);
}

const Descriptor& Graph::add_convolution(const Convolution& geometry) {
  Descriptor& convolution = details_.emplace_back(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const std::int64_t spatial_dimensions = 2;
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, spatial_dimensions);
  const auto set_pair = [&](Descriptor::Name name, const std::array<std::int64_t, 2>& pair) {
    convolution.set(name, std::span<const std::int64_t>(pair));
  };
  set_pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, geometry.pad_before);
  set_pair(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, geometry.pad_after);
  set_pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, geometry.strides);
  set_pair(CUDNN_ATTR_CONVOLUTION_DILATIONS, geometry.dilation);
  convolution.finalize();
  return convolution;
}

Descriptor& Graph::add_operation(cudnnBackendDescriptorType_t type) {
  return operations_.emplace_back(type);
}

void Graph::convolve(const Convolution& geometry, TensorId x, TensorId filter, TensorId y) {
  Descriptor& operation = add_operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, add_convolution(geometry));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, at(x));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, at(filter));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, at(y));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0F);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0F);
  operation.finalize();
}

void Graph::convolve_backward_input(const Convolution& geometry, TensorId dy, TensorId filter,
                                    TensorId dx) {
  Descriptor& operation =
      add_operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, add_convolution(geometry));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, at(dy));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, at(filter));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, at(dx));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0F);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0F);
  operation.finalize();
}

void Graph::convolve_backward_filter(const Convolution& geometry, TensorId x, TensorId dy,
                                     TensorId dw) {
  Descriptor& operation =
      add_operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, add_convolution(geometry));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, at(x));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, at(dy));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, at(dw));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0F);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0F);
  operation.finalize();
}

Descriptor& Graph::add_pointwise(cudnnPointwiseMode_t mode) {
  Descriptor& pointwise = details_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  pointwise.finalize();
  Descriptor& operation = add_operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
  return operation;
}

void Graph::add(TensorId a, TensorId b, TensorId y) {
  Descriptor& operation = add_pointwise(CUDNN_POINTWISE_ADD);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(a));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
  operation.finalize();
}

void Graph::relu(TensorId x, TensorId y) {
  Descriptor& operation = add_pointwise(CUDNN_POINTWISE_RELU_FWD);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
  operation.finalize();
}

bool Graph::finalize(std::string& reason) {
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  if (target_.handle() != nullptr) {
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target_.handle());
  }
  return graph_.finalize(reason);
}

}  // namespace demi::cuda::cudnn
