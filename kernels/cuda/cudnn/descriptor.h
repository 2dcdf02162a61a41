// Descriptor: owner of one descriptor of cuDNN's backend API, with typed attributes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cudnn.h>

namespace demi::cuda::cudnn {

/// Which cudnnBackendAttributeType_t announces values of a C++ type. (void* is an address of data,
/// although cudnnBackendDescriptor_t is the same type.)
template <class T>
struct AttributeType;
template <>
struct AttributeType<std::int64_t> {
  static constexpr auto value = CUDNN_TYPE_INT64;
};
template <>
struct AttributeType<float> {
  static constexpr auto value = CUDNN_TYPE_FLOAT;
};
template <>
struct AttributeType<bool> {
  static constexpr auto value = CUDNN_TYPE_BOOLEAN;
};
template <>
struct AttributeType<char> {
  static constexpr auto value = CUDNN_TYPE_CHAR;
};
template <>
struct AttributeType<void*> {
  static constexpr auto value = CUDNN_TYPE_VOID_PTR;
};
template <>
struct AttributeType<cudnnHandle_t> {
  static constexpr auto value = CUDNN_TYPE_HANDLE;
};
template <>
struct AttributeType<cudnnDataType_t> {
  static constexpr auto value = CUDNN_TYPE_DATA_TYPE;
};
template <>
struct AttributeType<cudnnConvolutionMode_t> {
  static constexpr auto value = CUDNN_TYPE_CONVOLUTION_MODE;
};
template <>
struct AttributeType<cudnnPointwiseMode_t> {
  static constexpr auto value = CUDNN_TYPE_POINTWISE_MODE;
};
template <>
struct AttributeType<cudnnBackendHeurMode_t> {
  static constexpr auto value = CUDNN_TYPE_HEUR_MODE;
};
template <>
struct AttributeType<cudnnBackendKnobType_t> {
  static constexpr auto value = CUDNN_TYPE_KNOB_TYPE;
};
template <>
struct AttributeType<cudnnBackendNumericalNote_t> {
  static constexpr auto value = CUDNN_TYPE_NUMERICAL_NOTE;
};
template <>
struct AttributeType<cudnnBackendBehaviorNote_t> {
  static constexpr auto value = CUDNN_TYPE_BEHAVIOR_NOTE;
};

/// Move-only. Attributes are set, then finalize() makes it usable as an attribute of others, which
/// it must outlive.
class Descriptor {
 public:
  using Name = cudnnBackendAttributeName_t;

  /// Throws DeviceError if cuDNN cannot create one.
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] cudnnBackendDescriptor_t get() const { return handle_; }

  /// Throw DeviceError with cuDNN's explanation if it takes no such value.
  template <class T>
  void set(Name name, std::span<const T> values) {
    set_raw(name, AttributeType<T>::value, static_cast<std::int64_t>(values.size()), values.data());
  }
  template <class T>
  void set(Name name, const T& value) {
    set_raw(name, AttributeType<T>::value, 1, &value);
  }
  void set(Name name, const Descriptor& value) {
    set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  void set(Name name, const std::vector<Descriptor>& values);

  /// False if cuDNN refuses the combination of attributes; `reason` then is its explanation.
  [[nodiscard]] bool finalize(std::string& reason);
  /// The same, but throws DeviceError.
  void finalize();

  /// At most `limit` values of an attribute of a finalized descriptor. Throws DeviceError.
  template <class T>
  [[nodiscard]] std::vector<T> values(Name name, std::int64_t limit) const {
    std::vector<T> list(static_cast<std::size_t>(limit));
    list.resize(
        static_cast<std::size_t>(get_raw(name, AttributeType<T>::value, limit, list.data())));
    return list;
  }
  template <class T>
  [[nodiscard]] T value(Name name) const {
    T value{};
    get_raw(name, AttributeType<T>::value, 1, &value);
    return value;
  }
  /// Descriptors of `type`, copies that are the caller's.
  [[nodiscard]] std::vector<Descriptor> descriptors(Name name, cudnnBackendDescriptorType_t type,
                                                    std::int64_t limit) const;
  /// How many values there may be: what cuDNN says without being given room for any.
  [[nodiscard]] std::int64_t count(Name name, cudnnBackendAttributeType_t type) const;

 private:
  void set_raw(Name name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  std::int64_t get_raw(Name name, cudnnBackendAttributeType_t type, std::int64_t limit,
                       void* values) const;

  cudnnBackendDescriptor_t handle_ = nullptr;
};

/// "CUDNN_STATUS_NOT_SUPPORTED, <cuDNN's last error string on this thread>".
[[nodiscard]] std::string explain(cudnnStatus_t status);

}  // namespace demi::cuda::cudnn
