// The runtime's functions for memory and copies.

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/cuda_emulator/src/api.h"
#include "tests/cuda_emulator/src/capture.h"
#include "tests/cuda_emulator/src/device_profile.h"
#include "tests/cuda_emulator/src/memory.h"
#include "tests/cuda_emulator/src/scheduler.h"

using namespace cuda_emulator;

namespace {

cudaError_t refuse(const std::string& reason) {
  explain(reason);
  return cudaErrorInvalidValue;
}

void count_allocation() {
  DemiEmulatorCounters& counters = state().counters;
  ++counters.device_allocations;
  counters.device_bytes = device_memory().used();
  counters.device_bytes_peak = std::max(counters.device_bytes_peak, counters.device_bytes);
}

cudaError_t allocate_host(void** address, std::size_t bytes) {
  if (address == nullptr) return refuse("a pinned allocation without a place for its address");
  *address = nullptr;
  if (const cudaError_t error = capture_forbids_unsafe_call(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (!state().allocations.fires()) *address = allocate_pinned(bytes);
  return *address != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

/// A release waits for all work, as a GPU's does.
cudaError_t wait_before_release() {
  if (const cudaError_t error = capture_forbids_unsafe_call(); error != cudaSuccess) return error;
  ++state().counters.host_synchronizations;
  run_all();
  return state().sticky_error;
}

// ---- Copies
// ---------------------------------------------------------------------------------------

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  cudaMemcpyKind kind;

  [[nodiscard]] bool reads_device() const {
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  }
  [[nodiscard]] bool writes_device() const {
    return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  }
};

/// Finds the kind of cudaMemcpyDefault and checks both ranges.
cudaError_t check(Copy& copy) {
  const bool from_device = device_memory().in_range(copy.from);
  const bool to_device = device_memory().in_range(copy.to);
  if (copy.kind == cudaMemcpyDefault) {
    copy.kind = from_device ? (to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost)
                            : (to_device ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost);
  }
  if (from_device != copy.reads_device() || to_device != copy.writes_device()) {
    return refuse("a copy whose kind does not say where its pointers point");
  }
  if (from_device && !is_device_range(copy.from, copy.bytes)) {
    return refuse("a copy of " + std::to_string(copy.bytes) + " bytes from device memory " +
                  device_memory().describe(copy.from));
  }
  if (to_device && !is_device_range(copy.to, copy.bytes)) {
    return refuse("a copy of " + std::to_string(copy.bytes) + " bytes to device memory " +
                  device_memory().describe(copy.to));
  }
  return cudaSuccess;
}

const char* name_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return "copy to the device";
    case cudaMemcpyDeviceToHost:
      return "copy to the host";
    case cudaMemcpyDeviceToDevice:
      return "copy on the device";
    default:
      return "copy on the host";
  }
}

Operation make_operation(const Copy& copy) {
  Operation operation;
  operation.name = name_of(copy.kind);
  operation.kind = Operation::Kind::kCopy;
  operation.run = [copy] { std::memmove(copy.to, copy.from, copy.bytes); };
  return operation;
}

/// The bytes of pageable memory are taken at the call.
Operation make_staged_operation(const Copy& copy) {
  const char* begin = static_cast<const char*>(copy.from);
  auto staged = std::make_shared<std::vector<char>>(begin, begin + copy.bytes);
  Operation operation = make_operation(copy);
  operation.run = [copy, staged] { std::memcpy(copy.to, staged->data(), copy.bytes); };
  return operation;
}

/// A host that looks before it has waited finds the poison, not the values of before.
Operation make_poisoned_operation(const Copy& copy) {
  Operation operation = make_operation(copy);
  operation.issue = [copy] { std::memset(copy.to, 0xFF, copy.bytes); };
  return operation;
}

cudaError_t copy_and_wait(Stream& stream, Operation operation) {
  if (const cudaError_t error = issue(stream, std::move(operation)); error != cudaSuccess) {
    return error;
  }
  ++state().counters.host_synchronizations;
  run_until(stream.last);
  return state().sticky_error;
}

cudaError_t copy_now(Copy copy) {
  if (const cudaError_t error = capture_forbids_unsafe_call(); error != cudaSuccess) return error;
  if (const cudaError_t error = check(copy); error != cudaSuccess) return error;
  if (copy.bytes == 0) return cudaSuccess;
  const auto stream = find_stream(nullptr, "cudaMemcpy");
  // Copies inside the device do not wait.
  if (copy.kind == cudaMemcpyDeviceToDevice) return issue(*stream, make_operation(copy));
  return copy_and_wait(*stream, make_operation(copy));
}

cudaError_t copy_later(Copy copy, Stream& stream) {
  if (const cudaError_t error = check(copy); error != cudaSuccess) return error;
  if (copy.bytes == 0) return cudaSuccess;
  const void* host = copy.reads_device() ? copy.to : copy.from;
  if (copy.kind == cudaMemcpyDeviceToDevice || copy.kind == cudaMemcpyHostToHost) {
    return issue(stream, make_operation(copy));
  }
  if (!is_pinned_range(host, copy.bytes)) {
    if (stream.capture != nullptr) {
      explain("a copy of pageable memory is captured");
      stream.capture->invalidate();
      return cudaErrorStreamCaptureUnsupported;
    }
    return copy.reads_device() ? copy_and_wait(stream, make_operation(copy))
                               : issue(stream, make_staged_operation(copy));
  }
  return issue(stream, copy.reads_device() ? make_poisoned_operation(copy) : make_operation(copy));
}

cudaError_t fill_later(void* address, int value, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return cudaSuccess;
  if (!is_device_range(address, bytes)) {
    return refuse("a fill of " + std::to_string(bytes) + " bytes " +
                  device_memory().describe(address));
  }
  Operation operation;
  operation.name = "fill";
  operation.kind = Operation::Kind::kCopy;
  operation.run = [=] { std::memset(address, value, bytes); };
  return issue(stream, std::move(operation));
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return api("cudaMalloc", [&] {
    if (address == nullptr) return refuse("an allocation without a place for its address");
    *address = nullptr;
    if (const cudaError_t error = capture_forbids_unsafe_call(); error != cudaSuccess) {
      return error;
    }
    if (bytes == 0) return cudaSuccess;
    if (!state().allocations.fires()) *address = device_memory().allocate(bytes);
    if (*address == nullptr) return cudaErrorMemoryAllocation;
    count_allocation();
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* address) {
  return api("cudaFree", [&] {
    if (address == nullptr) return cudaSuccess;
    if (const cudaError_t error = wait_before_release(); error != cudaSuccess) return error;
    if (!device_memory().free(address)) {
      return refuse("cudaFree of what is no live device allocation");
    }
    state().counters.device_bytes = device_memory().used();
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  return api("cudaHostAlloc", [&] { return allocate_host(address, bytes); });
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return api("cudaMallocHost", [&] { return allocate_host(address, bytes); });
}

cudaError_t cudaFreeHost(void* address) {
  return api("cudaFreeHost", [&] {
    if (address == nullptr) return cudaSuccess;
    if (const cudaError_t error = wait_before_release(); error != cudaSuccess) return error;
    return free_pinned(address) ? cudaSuccess
                                : refuse("cudaFreeHost of what is no live pinned allocation");
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api("cudaMemGetInfo", [&] {
    *total = device_memory().limit();
    *free = *total - std::min(*total, device_memory().used());
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return api("cudaMemcpy", [&] { return copy_now({to, from, bytes, kind}); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return api("cudaMemcpyAsync", [&] {
    return copy_later({to, from, bytes, kind}, *find_stream(stream, "cudaMemcpyAsync"));
  });
}

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  return api("cudaMemset", [&] {
    return fill_later(address, value, bytes, *find_stream(nullptr, "cudaMemset"));
  });
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  return api("cudaMemsetAsync", [&] {
    return fill_later(address, value, bytes, *find_stream(stream, "cudaMemsetAsync"));
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return api("cudaPointerGetAttributes", [&] {
    *attributes = {};
    void* pointer = const_cast<void*>(address);
    if (is_device_range(address, 1)) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->devicePointer = pointer;
    } else if (is_pinned_range(address, 1)) {
      attributes->type = cudaMemoryTypeHost;
      attributes->devicePointer = pointer;
      attributes->hostPointer = pointer;
    } else {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = -2;
      attributes->hostPointer = pointer;
    }
    return cudaSuccess;
  });
}

}  // extern "C"
