// The arithmetic of operation graphs, on dense arrays with the channels last.
#include <algorithm>
#include <cmath>

#include "tests/cuda_emulator/src/cudnn_program.h"

namespace cuda_emulator {
namespace {

template <class T>
class Run {
 public:
  Run(const Program& program, const std::map<std::int64_t, void*>& addresses, bool tensor_cores)
      : program_(program), addresses_(addresses), tensor_cores_(tensor_cores) {}

  void run() {
    for (const GraphOperation& operation : program_.operations) {
      if (operation.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
        write(operation.output, pointwise(operation));
      } else {
        write(operation.output, convolution(operation));
      }
    }
  }

 private:
  using Array = std::vector<T>;

  [[nodiscard]] const GraphTensor& tensor(std::int64_t id) const { return program_.tensors.at(id); }

  [[nodiscard]] Array from_memory(std::int64_t id) const {
    return load_dense<T>(tensor(id), addresses_.at(id));
  }

  [[nodiscard]] Array read(std::int64_t id) const {
    return tensor(id).is_virtual ? virtual_.at(id) : from_memory(id);
  }

  /// Rounded to the tensor's type.
  void write(std::int64_t id, Array array) {
    const GraphTensor& target = tensor(id);
    if (target.is_virtual) {
      std::vector<std::byte> stored(array.size() * size_of(target.format));
      store(target.format, array.data(), target.count(), 1, stored.data());
      load(target.format, stored.data(), target.count(), 1, array.data());
      virtual_[id] = std::move(array);
      return;
    }
    store_dense(target, array, addresses_.at(id));
  }

  [[nodiscard]] Array operand(std::int64_t id) const {
    Array array = read(id);
    if (tensor_cores_ && tensor(id).format == Format::kFloat) {
      for (T& value : array) value = round_to_tf32(static_cast<float>(value));
    }
    return array;
  }

  [[nodiscard]] Array convolution(const GraphOperation& operation) const {
    const Array a = operand(operation.inputs[0]);
    const Array b = operand(operation.inputs[1]);
    Array result(static_cast<std::size_t>(tensor(operation.output).count()));
    const Convolution& shape = operation.convolution;
    if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
      convolve(shape, a.data(), b.data(), result.data());
    } else if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
      convolve_backward_data(shape, a.data(), b.data(), result.data());
    } else {
      convolve_backward_filter(shape, a.data(), b.data(), result.data());
    }
    const T alpha = static_cast<T>(operation.alpha), beta = static_cast<T>(operation.beta);
    if (alpha != 1) {
      for (T& value : result) value *= alpha;
    }
    if (beta != 0) {
      const Array old = from_memory(operation.output);
      for (std::size_t i = 0; i < result.size(); ++i) result[i] += beta * old[i];
    }
    return result;
  }

  [[nodiscard]] static T apply(const GraphOperation& operation, T x) {
    switch (operation.mode) {
      case CUDNN_POINTWISE_RELU_FWD:
        // As fmax: unless told otherwise, NaN becomes 0.
        return x > 0 || (operation.propagates_nan && std::isnan(x)) ? x : T{0};
      case CUDNN_POINTWISE_SIGMOID_FWD:
        return 1 / (1 + std::exp(-x));
      case CUDNN_POINTWISE_TANH_FWD:
        return std::tanh(x);
      default:
        return x;
    }
  }

  [[nodiscard]] Array pointwise(const GraphOperation& operation) const {
    const T alpha = static_cast<T>(operation.alpha), beta = static_cast<T>(operation.beta);
    const GraphTensor& y = tensor(operation.output);
    const Array x = broadcast(read(operation.inputs[0]), tensor(operation.inputs[0]), y);
    Array result(x.size());
    if (operation.inputs.size() == 1) {
      for (std::size_t i = 0; i < x.size(); ++i) result[i] = apply(operation, alpha * x[i]);
      return result;
    }
    const Array b = broadcast(read(operation.inputs[1]), tensor(operation.inputs[1]), y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const T first = alpha * x[i], second = beta * b[i];
      result[i] = operation.mode == CUDNN_POINTWISE_ADD ? first + second : first * second;
    }
    return result;
  }

  /// Repeated along the extents that are 1 in `from`.
  [[nodiscard]] static Array broadcast(Array array, const GraphTensor& from,
                                       const GraphTensor& to) {
    if (from.extents == to.extents) return array;
    Array result;
    result.reserve(static_cast<std::size_t>(to.count()));
    const auto at = [&](std::size_t dimension, std::int64_t index) {
      return from.extents[dimension] == 1 ? 0 : index;
    };
    for (std::int64_t n = 0; n < to.extents[0]; ++n) {
      for (std::int64_t h = 0; h < to.extents[2]; ++h) {
        for (std::int64_t w = 0; w < to.extents[3]; ++w) {
          const std::int64_t pixel =
              (at(0, n) * from.extents[2] + at(2, h)) * from.extents[3] + at(3, w);
          for (std::int64_t c = 0; c < to.extents[1]; ++c) {
            result.push_back(array[static_cast<std::size_t>(pixel * from.extents[1] + at(1, c))]);
          }
        }
      }
    }
    return result;
  }

  const Program& program_;
  const std::map<std::int64_t, void*>& addresses_;
  bool tensor_cores_;
  std::map<std::int64_t, Array> virtual_;
};

}  // namespace

void run_program(const Program& program, const std::map<std::int64_t, void*>& addresses,
                 bool tensor_cores) {
  if (program.is_double) {
    Run<double>(program, addresses, tensor_cores).run();
  } else {
    Run<float>(program, addresses, tensor_cores).run();
  }
}

}  // namespace cuda_emulator
