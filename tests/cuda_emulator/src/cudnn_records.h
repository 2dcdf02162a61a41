// What was set on cuDNN's backend descriptors, kept beside the installed library's own objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include <cudnn.h>

namespace cuda_emulator {

struct CudnnHandle {
  cudaStream_t stream = nullptr;
};

/// The live object of a handle; null for a null handle, fatal for a destroyed one.
[[nodiscard]] std::shared_ptr<CudnnHandle> find_cudnn_handle(cudnnHandle_t handle,
                                                             const char* call);

/// Whether the installed library takes the description of the emulated device; if not, its message
/// is cudnnGetLastErrorString's.
[[nodiscard]] bool real_cudnn_takes_device();

struct Record;

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::int64_t count;
  std::vector<std::byte> bytes;                      ///< the values, except of descriptors
  std::vector<std::shared_ptr<Record>> descriptors;  ///< for CUDNN_TYPE_BACKEND_DESCRIPTOR
};

/// One descriptor. Its attributes do not change once it is finalized.
struct Record {
  using Name = cudnnBackendAttributeName_t;

  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  /// Of execution plans: whether the engine says that it uses tensor cores.
  bool tensor_cores = false;
  std::map<Name, Attribute> attributes;
  /// The operation graph of descriptors that were filled by cuDNN (engines, configurations).
  std::shared_ptr<Record> filled_for;

  [[nodiscard]] bool has(Name name) const { return attributes.count(name) != 0; }

  /// The values; none if the attribute was not set.
  template <class T>
  [[nodiscard]] std::vector<T> values(Name name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> list(found->second.bytes.size() / sizeof(T));
    std::memcpy(list.data(), found->second.bytes.data(), list.size() * sizeof(T));
    return list;
  }
  /// The first value.
  template <class T>
  [[nodiscard]] T value(Name name, T fallback) const {
    const auto found = attributes.find(name);
    if (found == attributes.end() || found->second.bytes.size() < sizeof(T)) return fallback;
    std::memcpy(&fallback, found->second.bytes.data(), sizeof(T));
    return fallback;
  }
  /// A number that may be set as float or as double.
  [[nodiscard]] double scalar(Name name, double fallback) const;
  /// The only descriptor; null if it was not set.
  [[nodiscard]] std::shared_ptr<Record> descriptor(Name name) const;
};

/// The record of a live descriptor. Fatal if it was destroyed or never created.
[[nodiscard]] std::shared_ptr<Record> find_record(cudnnBackendDescriptor_t descriptor,
                                                  const char* call);

/// The operation graph that an engine, a configuration, a heuristic query or a plan is for; null if
/// none was set.
[[nodiscard]] std::shared_ptr<Record> graph_of(const std::shared_ptr<Record>& record);

}  // namespace cuda_emulator
