#include "tests/cuda_emulator/src/cudnn_program.h"

#include <algorithm>
#include <set>

#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {
namespace {

/// Where each kind of convolution keeps its attributes.
struct ConvolutionNames {
  Record::Name details, alpha, beta, x, filter, y;
};

ConvolutionNames names_of(cudnnBackendDescriptorType_t type) {
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  }
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  }
  return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

[[noreturn]] void not_emulated(const std::string& what) {
  fatal("cudnnBackendExecute: " + what + " is not emulated");
}

template <std::size_t N>
std::array<std::int64_t, N> extents(const Record& record, Record::Name name, const char* what) {
  const std::vector<std::int64_t> list = record.values<std::int64_t>(name);
  if (list.size() != N) not_emulated(std::string(what) + " of other than 2 spatial dimensions");
  std::array<std::int64_t, N> values;
  std::copy(list.begin(), list.end(), values.begin());
  return values;
}

class Reader {
 public:
  Program read(const Record& graph) {
    const auto found = graph.attributes.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (found == graph.attributes.end()) not_emulated("an operation graph without operations");
    for (const auto& operation : found->second.descriptors) {
      switch (operation->type) {
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
          read_convolution(*operation);
          break;
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
          read_pointwise(*operation);
          break;
        default:
          not_emulated("an operation of descriptor type " + std::to_string(operation->type));
      }
    }
    sort_operations();
    return std::move(program_);
  }

 private:
  const GraphTensor& tensor(const Record& operation, Record::Name name) {
    const std::shared_ptr<Record> record = operation.descriptor(name);
    if (record == nullptr) not_emulated("an operation without one of its tensors");
    const auto format = format_of(record->value(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT));
    if (!format) not_emulated("a tensor that is not floating");
    if (record->value(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)) not_emulated("a tensor by value");
    if (record->value<std::int64_t>(CUDNN_ATTR_TENSOR_VECTOR_COUNT, 1) != 1) {
      not_emulated("a vectorized tensor");
    }
    program_.is_double |= *format == Format::kDouble;
    const auto id = record->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    const StridedTensor in_memory = {*format,
                                     extents<4>(*record, CUDNN_ATTR_TENSOR_DIMENSIONS, "a tensor"),
                                     extents<4>(*record, CUDNN_ATTR_TENSOR_STRIDES, "a tensor")};
    return program_.tensors[id] = {in_memory, id,
                                   record->value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1),
                                   record->value(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false)};
  }

  void use_precision(cudnnDataType_t type) {
    if (type == CUDNN_DATA_DOUBLE) {
      program_.is_double = true;
    } else if (type != CUDNN_DATA_FLOAT) {
      not_emulated("arithmetic in other than float and double");
    }
  }

  void read_convolution(const Record& record) {
    const ConvolutionNames names = names_of(record.type);
    const std::shared_ptr<Record> details = record.descriptor(names.details);
    if (details == nullptr) not_emulated("a convolution without its descriptor");
    if (details->value(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CONVOLUTION) !=
        CUDNN_CROSS_CORRELATION) {
      not_emulated("a convolution with a mirrored filter");
    }
    use_precision(details->value(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT));
    const GraphTensor x = tensor(record, names.x);
    const GraphTensor filter = tensor(record, names.filter);
    const GraphTensor y = tensor(record, names.y);
    const auto pair = [&](Record::Name name) {
      return extents<2>(*details, name, "a convolution");
    };
    GraphOperation operation = {};
    operation.type = record.type;
    operation.alpha = record.scalar(names.alpha, 1);
    operation.beta = record.scalar(names.beta, 0);
    operation.convolution = {x.extents[0],
                             x.extents[2],
                             x.extents[3],
                             x.extents[1],
                             filter.extents[0],
                             filter.extents[2],
                             filter.extents[3],
                             y.extents[2],
                             y.extents[3],
                             x.extents[1] / filter.extents[1],
                             pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
                             pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                             pair(CUDNN_ATTR_CONVOLUTION_DILATIONS)};
    if (record.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
      operation.inputs = {x.id, filter.id};
      operation.output = y.id;
    } else if (record.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
      operation.inputs = {y.id, filter.id};
      operation.output = x.id;
    } else {
      operation.inputs = {x.id, y.id};
      operation.output = filter.id;
    }
    program_.operations.push_back(std::move(operation));
  }

  void read_pointwise(const Record& record) {
    const std::shared_ptr<Record> details =
        record.descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    if (details == nullptr) not_emulated("a pointwise operation without its descriptor");
    use_precision(details->value(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT));
    GraphOperation operation = {};
    operation.type = record.type;
    operation.mode = details->value(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
    operation.alpha = record.scalar(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1);
    operation.beta = record.scalar(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1);
    operation.propagates_nan = details->value(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION,
                                              CUDNN_NOT_PROPAGATE_NAN) == CUDNN_PROPAGATE_NAN;
    operation.inputs = {tensor(record, CUDNN_ATTR_OPERATION_POINTWISE_XDESC).id};
    switch (operation.mode) {
      case CUDNN_POINTWISE_ADD:
      case CUDNN_POINTWISE_MUL:
        operation.inputs.push_back(tensor(record, CUDNN_ATTR_OPERATION_POINTWISE_BDESC).id);
        break;
      case CUDNN_POINTWISE_RELU_FWD:
        if (details->scalar(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0) != 0 ||
            details->scalar(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0) != 0 ||
            details->scalar(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, 1e38) < 1e38) {
          not_emulated("a clipped or leaky ReLU");
        }
        break;
      case CUDNN_POINTWISE_SIGMOID_FWD:
      case CUDNN_POINTWISE_TANH_FWD:
      case CUDNN_POINTWISE_IDENTITY:
        break;
      default:
        not_emulated("pointwise mode " + std::to_string(operation.mode));
    }
    operation.output = tensor(record, CUDNN_ATTR_OPERATION_POINTWISE_YDESC).id;
    program_.operations.push_back(std::move(operation));
  }

  /// cuDNN takes the operations in any order.
  void sort_operations() {
    std::vector<GraphOperation> waiting = std::move(program_.operations);
    program_.operations.clear();
    std::set<std::int64_t> missing;
    for (const GraphOperation& operation : waiting) missing.insert(operation.output);
    while (!waiting.empty()) {
      const auto ready = std::find_if(waiting.begin(), waiting.end(), [&](const auto& operation) {
        return std::none_of(operation.inputs.begin(), operation.inputs.end(),
                            [&](std::int64_t id) { return missing.count(id) != 0; });
      });
      if (ready == waiting.end()) not_emulated("a graph with a cycle");
      missing.erase(ready->output);
      program_.operations.push_back(std::move(*ready));
      waiting.erase(ready);
    }
  }

  Program program_;
};

}  // namespace

bool Program::is_output(std::int64_t id) const {
  return std::any_of(operations.begin(), operations.end(),
                     [&](const GraphOperation& operation) { return operation.output == id; });
}

Program read_program(const Record& graph) {
  return Reader().read(graph);
}

}  // namespace cuda_emulator
