#include "tests/cuda_emulator/support/cudnn_graph_builder.h"

#include <algorithm>

namespace cuda_emulator::testing {

std::string last_error() {
  char text[1024] = "";
  cudnnGetLastErrorString(text, sizeof(text));
  return text;
}

Extents channels_last(const Extents& e) {
  return {e[1] * e[2] * e[3], 1, e[1] * e[3], e[1]};
}

Extents channels_first(const Extents& e) {
  return {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1};
}

Builder::~Builder() {
  for (auto it = descriptors_.rbegin(); it != descriptors_.rend(); ++it) {
    (void)cudnnBackendDestroyDescriptor(*it);
  }
}

void Builder::note(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS || failure_.status != CUDNN_STATUS_SUCCESS) return;
  failure_ = {status, last_error()};
}

cudnnBackendDescriptor_t Builder::create(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  const cudnnStatus_t status = cudnnBackendCreateDescriptor(type, &descriptor);
  note(status);
  if (status == CUDNN_STATUS_SUCCESS) descriptors_.push_back(descriptor);
  return descriptor;
}

void Builder::set_raw(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  if (failure_.status != CUDNN_STATUS_SUCCESS) return;
  note(cudnnBackendSetAttribute(descriptor, name, type, count, values));
}

void Builder::finalize(cudnnBackendDescriptor_t descriptor) {
  if (failure_.status != CUDNN_STATUS_SUCCESS) return;
  note(cudnnBackendFinalize(descriptor));
}

cudnnBackendDescriptor_t Builder::tensor(const TensorSpec& spec) {
  cudnnBackendDescriptor_t tensor = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {spec.id});
  set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {spec.type});
  set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {spec.alignment});
  set_raw(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, spec.extents.data());
  set_raw(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, spec.strides.data());
  if (spec.is_virtual) {
    set(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, {true});
  }
  finalize(tensor);
  return tensor;
}

void Builder::convolution(cudnnBackendDescriptorType_t which, const ConvolutionSpec& spec,
                          const TensorSpec& x, const TensorSpec& filter, const TensorSpec& y) {
  cudnnBackendDescriptor_t details = create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set(details, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, {spec.compute});
  set(details, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
      {CUDNN_CROSS_CORRELATION});
  set(details, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, {std::int64_t{2}});
  const auto set_pair = [&](cudnnBackendAttributeName_t name,
                            const std::array<std::int64_t, 2>& pair) {
    set_raw(details, name, CUDNN_TYPE_INT64, 2, pair.data());
  };
  set_pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spec.pad_before);
  set_pair(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spec.pad_after);
  set_pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spec.strides);
  set_pair(CUDNN_ATTR_CONVOLUTION_DILATIONS, spec.dilation);
  finalize(details);

  // The six attributes of each operation have consecutive numbers in these orders.
  const bool forward = which == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool data = which == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const int first = forward ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
                    : data  ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
                            : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
  const auto name = [&](int offset) {
    return static_cast<cudnnBackendAttributeName_t>(first + offset);
  };
  cudnnBackendDescriptor_t operation = create(which);
  if (spec.compute == CUDNN_DATA_DOUBLE) {
    set(operation, name(0), CUDNN_TYPE_DOUBLE, {double{spec.alpha}});
    set(operation, name(1), CUDNN_TYPE_DOUBLE, {double{spec.beta}});
  } else {
    set(operation, name(0), CUDNN_TYPE_FLOAT, {spec.alpha});
    set(operation, name(1), CUDNN_TYPE_FLOAT, {spec.beta});
  }
  set(operation, name(2), CUDNN_TYPE_BACKEND_DESCRIPTOR, {details});
  set(operation, name(3), CUDNN_TYPE_BACKEND_DESCRIPTOR, {tensor(filter)});
  set(operation, name(4), CUDNN_TYPE_BACKEND_DESCRIPTOR, {tensor(x)});
  set(operation, name(5), CUDNN_TYPE_BACKEND_DESCRIPTOR, {tensor(y)});
  finalize(operation);
  operations_.push_back(operation);
}

void Builder::pointwise(cudnnPointwiseMode_t mode, const TensorSpec& x, const TensorSpec* b,
                        const TensorSpec& y) {
  cudnnBackendDescriptor_t details = create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(details, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, {mode});
  set(details, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
  finalize(details);
  cudnnBackendDescriptor_t operation = create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      {details});
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, {tensor(x)});
  if (b != nullptr) {
    set(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        {tensor(*b)});
  }
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, {tensor(y)});
  finalize(operation);
  operations_.push_back(operation);
}

std::vector<cudnnBackendDescriptor_t> Builder::suggestions(cudnnBackendDescriptor_t graph,
                                                           cudnnBackendHeurMode_t mode) {
  cudnnBackendDescriptor_t heuristics = create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, {graph});
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, {mode});
  finalize(heuristics);
  if (failure_.status != CUDNN_STATUS_SUCCESS) return {};
  std::int64_t count = 0;
  note(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<cudnnBackendDescriptor_t> list;
  for (std::int64_t i = 0; i < count; ++i)
    list.push_back(create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  std::int64_t filled = 0;
  note(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &filled, list.data()));
  list.resize(static_cast<std::size_t>(filled));
  return list;
}

bool Builder::uses_tensor_cores(cudnnBackendDescriptor_t config) {
  cudnnBackendDescriptor_t engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::int64_t count = 0;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  note(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                1, &count, &engine));
  note(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
  return std::count(notes, notes + count, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) > 0;
}

cudnnBackendDescriptor_t Builder::plan(cudnnHandle_t handle, bool tensor_cores) {
  cudnnBackendDescriptor_t graph = create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set_raw(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
          static_cast<std::int64_t>(operations_.size()), operations_.data());
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {handle});
  finalize(graph);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (cudnnBackendDescriptor_t config : suggestions(graph, mode)) {
      if (!tensor_cores && uses_tensor_cores(config)) continue;
      cudnnBackendDescriptor_t plan = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, {handle});
      set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, {config});
      if (failure_.status != CUDNN_STATUS_SUCCESS) return nullptr;
      if (cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS) return plan;
      ++refused_;
    }
  }
  return nullptr;
}

std::int64_t Builder::workspace_bytes(cudnnBackendDescriptor_t plan) {
  std::int64_t count = 0, bytes = -1;
  note(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                &count, &bytes));
  return bytes;
}

cudnnBackendDescriptor_t Builder::variant_pack(
    const std::vector<std::pair<std::int64_t, void*>>& tensors, void* workspace) {
  std::vector<std::int64_t> ids;
  std::vector<void*> addresses;
  for (const auto& [id, address] : tensors) {
    ids.push_back(id);
    addresses.push_back(address);
  }
  cudnnBackendDescriptor_t pack = create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<std::int64_t>(ids.size());
  set_raw(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  set_raw(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
          addresses.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace});
  finalize(pack);
  return pack;
}

}  // namespace cuda_emulator::testing
