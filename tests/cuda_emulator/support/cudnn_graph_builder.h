// Operation graphs of cuDNN's backend API for the emulator's tests, written against the API alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cudnn.h>

namespace cuda_emulator::testing {

/// What the calls of a Builder said last, besides success.
struct Failure {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::string message;
};

/// cudnnGetLastErrorString.
[[nodiscard]] std::string last_error();

using Extents = std::array<std::int64_t, 4>;  ///< N, C, H, W

[[nodiscard]] Extents channels_last(const Extents& extents);
[[nodiscard]] Extents channels_first(const Extents& extents);

struct TensorSpec {
  std::int64_t id;
  cudnnDataType_t type;
  Extents extents;
  Extents strides;
  bool is_virtual = false;
  std::int64_t alignment = 16;
};

struct ConvolutionSpec {
  std::array<std::int64_t, 2> pad_before = {0, 0}, pad_after = {0, 0}, strides = {1, 1},
                              dilation = {1, 1};
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  float alpha = 1, beta = 0;
};

/// Owns descriptors. Every call after a failure does nothing.
class Builder {
 public:
  Builder() = default;
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  cudnnBackendDescriptor_t create(cudnnBackendDescriptorType_t type);
  template <class T>
  void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, std::initializer_list<T> values) {
    set_raw(descriptor, name, type, static_cast<std::int64_t>(values.size()), values.begin());
  }
  void set_raw(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  void finalize(cudnnBackendDescriptor_t descriptor);

  cudnnBackendDescriptor_t tensor(const TensorSpec& spec);
  /// `which` is the descriptor type of one of the three convolution operations; of backward ones x
  /// or the filter is the result.
  void convolution(cudnnBackendDescriptorType_t which, const ConvolutionSpec& spec,
                   const TensorSpec& x, const TensorSpec& filter, const TensorSpec& y);
  void pointwise(cudnnPointwiseMode_t mode, const TensorSpec& x, const TensorSpec* b,
                 const TensorSpec& y);

  /// The first plan of heuristic mode A (then the fallback list) that finalizes; null if none does.
  /// Engines with tensor cores, which round float32 to TF32, only if `tensor_cores`.
  cudnnBackendDescriptor_t plan(cudnnHandle_t handle, bool tensor_cores = true);
  /// How many plans plan() found refused.
  [[nodiscard]] int refused() const { return refused_; }
  [[nodiscard]] std::int64_t workspace_bytes(cudnnBackendDescriptor_t plan);

  cudnnBackendDescriptor_t variant_pack(const std::vector<std::pair<std::int64_t, void*>>& tensors,
                                        void* workspace);

  [[nodiscard]] const Failure& failure() const { return failure_; }

 private:
  void note(cudnnStatus_t status);
  bool uses_tensor_cores(cudnnBackendDescriptor_t config);
  std::vector<cudnnBackendDescriptor_t> suggestions(cudnnBackendDescriptor_t graph,
                                                    cudnnBackendHeurMode_t mode);

  std::vector<cudnnBackendDescriptor_t> descriptors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  int refused_ = 0;
  Failure failure_;
};

}  // namespace cuda_emulator::testing
