// Softmax, log-softmax and their gradients: a warp works on a row along the axis. It reads all
// elements of a row that a lane has before that lane writes them, so the result may take the place
// of an input.

#include <demi/ops/softmax.h>

#include "kernels/cuda/registry.h"
#include "kernels/cuda/rows.cuh"

namespace demi::cuda {
namespace {

/// The tensor as [outer, classes, inner], with a row along `classes`.
struct RowLayout {
  std::int64_t outer = 1;
  std::int64_t classes = 1;
  std::int64_t inner = 1;

  RowLayout(const Shape& shape, int axis) {
    const int normalized = shape.normalize_axis(axis);
    for (int i = 0; i < shape.rank(); ++i) {
      (i < normalized ? outer : i == normalized ? classes : inner) *= shape[i];
    }
  }
  [[nodiscard]] __host__ __device__ std::int64_t rows() const { return outer * inner; }
  /// The place of element i of a row.
  [[nodiscard]] __device__ std::int64_t at(std::int64_t row, std::int64_t i) const {
    return (row / inner * classes + i) * inner + row % inner;
  }
};

struct Softmax {
  template <class Acc, class X, class Y, class Store>
  __device__ static void row(std::int64_t count, int lane, X x, Y, Store store) {
    const Acc shift = max_row<Acc>(count, lane, x);
    const Acc sum = sum_row<Acc>(count, lane, [&](std::int64_t i) { return exp(x(i) - shift); });
    const Acc scale = sum == 0 ? Acc{0} : 1 / sum;
    for (std::int64_t i = lane; i < count; i += 32) store(i, exp(x(i) - shift) * scale);
  }
};

struct LogSoftmax {
  template <class Acc, class X, class Y, class Store>
  __device__ static void row(std::int64_t count, int lane, X x, Y, Store store) {
    const Acc shift = max_row<Acc>(count, lane, x);
    const Acc sum = sum_row<Acc>(count, lane, [&](std::int64_t i) { return exp(x(i) - shift); });
    const Acc log_sum = sum == 0 ? Acc{0} : log(sum);
    for (std::int64_t i = lane; i < count; i += 32) store(i, (x(i) - shift) - log_sum);
  }
};

/// x is the gradient of y.
struct SoftmaxBackward {
  template <class Acc, class X, class Y, class Store>
  __device__ static void row(std::int64_t count, int lane, X dy, Y y, Store store) {
    const Acc dot = sum_row<Acc>(count, lane, [&](std::int64_t i) { return dy(i) * y(i); });
    for (std::int64_t i = lane; i < count; i += 32) store(i, y(i) * (dy(i) - dot));
  }
};

struct LogSoftmaxBackward {
  template <class Acc, class X, class Y, class Store>
  __device__ static void row(std::int64_t count, int lane, X dy, Y y, Store store) {
    const Acc sum = sum_row<Acc>(count, lane, dy);
    for (std::int64_t i = lane; i < count; i += 32) store(i, dy(i) - exp(y(i)) * sum);
  }
};

template <class Function, class Acc>
__global__ void softmax_rows(AnyInput x, AnyInput y, AnyOutput output, RowLayout layout) {
  for_rows_of_warp(layout.rows(), [&](std::int64_t row, int lane) {
    Function::template row<Acc>(
        layout.classes, lane,
        [&](std::int64_t i) { return x.template get<Acc>(layout.at(row, i)); },
        [&](std::int64_t i) { return y.template get<Acc>(layout.at(row, i)); },
        [&](std::int64_t i, Acc value) { output.set(layout.at(row, i), value); });
  });
}

template <class Function, class Acc>
std::unique_ptr<Kernel> make_rows(const KernelRequest& request, Context& context) {
  const RowLayout layout(request.outputs[0].shape,
                         request.attributes.as<ops::SoftmaxAttributes>().axis);
  const unsigned blocks = layout.classes == 0 ? 0 : row_blocks(layout.rows(), context);
  const std::size_t second = request.inputs.size() - 1;
  const DType x = request.inputs[0].dtype;
  const DType y = request.inputs[second].dtype;
  const DType output = request.outputs[0].dtype;
  return make_kernel("warp per row", 0, [=, &context](const KernelArguments& a) {
    launch(&softmax_rows<Function, Acc>, blocks, kElementwiseThreads, 0, context.stream(),
           AnyInput{a.inputs[0], x}, AnyInput{a.inputs[second], y}, AnyOutput{a.outputs[0], output},
           layout);
  });
}

template <class Function>
std::unique_ptr<Kernel> rows_factory(const KernelRequest& request, Context& context, std::string&) {
  for (const TensorType& input : request.inputs) {
    if (input.dtype == DType::kFloat64) return make_rows<Function, double>(request, context);
  }
  return make_rows<Function, float>(request, context);
}

}  // namespace

void register_softmax_kernels(Registry& registry) {
  registry.add("softmax", "warp per row", rows_factory<Softmax>);
  registry.add("softmax_backward", "warp per row", rows_factory<SoftmaxBackward>);
  registry.add("log_softmax", "warp per row", rows_factory<LogSoftmax>);
  registry.add("log_softmax_backward", "warp per row", rows_factory<LogSoftmaxBackward>);
}

}  // namespace demi::cuda
