// What the emulated libraries (cuBLASLt, cuDNN) use of the emulator's core: work on streams, checks
// of device memory, handles, and the beginning of every call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

namespace cuda_emulator {

/// Prints "[cuda emulator] message" to stderr and aborts: for what is undefined on a GPU.
[[noreturn]] void fatal(const std::string& message);

/// The emulator's only mutex. Every entry point holds it (Call does); host functions that streams
/// run are called with it held.
[[nodiscard]] std::recursive_mutex& mutex();

/// The beginning of every emulated library call: takes the mutex, counts the call, and says whether
/// an error was injected or a kernel has failed before:
///
///     const Call call("cublasLtMatmul");
///     if (call.error() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
class Call {
 public:
  explicit Call(const char* name);
  /// cudaSuccess, or what the call must fail with at once.
  [[nodiscard]] cudaError_t error() const { return error_; }
  [[nodiscard]] const char* name() const { return name_; }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  const char* name_;
  cudaError_t error_;
};

/// Appends work to a stream (null: the legacy default stream), or to the graph that the stream
/// captures. It runs later, when something waits for it, on the thread that waits, with device
/// memory accessible; in a graph it runs at each launch. What it captures by value is fixed now.
/// `name` appears in messages. Returns what a launch on that stream would return.
cudaError_t enqueue(cudaStream_t stream, std::string name, std::function<void()> work);

/// True if the bytes lie in one live device allocation. A range of 0 bytes may end one.
[[nodiscard]] bool is_device_range(const void* address, std::size_t bytes);

/// True if the bytes lie in one allocation of cudaHostAlloc or cudaMallocHost.
[[nodiscard]] bool is_pinned_range(const void* address, std::size_t bytes);

/// Bytes from the address to the end of the device allocation that holds it; 0 if none does.
[[nodiscard]] std::size_t device_bytes_from(const void* address);

/// Fills device memory with the byte of fresh memory (0xFF, a NaN, unless told otherwise), for
/// instance a workspace before its use. Only inside enqueued work, when the memory is accessible.
void poison(void* address, std::size_t bytes);

/// The described device as JSON, as cuDNN's deviceless planning takes it.
[[nodiscard]] const std::string& device_json();

/// 10 · major + minor of the described device: 75, 90.
[[nodiscard]] int compute_capability();

namespace internal {
/// A new number; kinds are only for messages.
[[nodiscard]] std::uintptr_t next_handle();
/// At exit and in demi_emulator_leaks, `count` tells how many objects of the kind are alive.
void register_leak_counter(const std::string& kind, std::function<std::size_t()> count);
}  // namespace internal

/// Handles of one kind. A handle is a number that is never given out twice and no valid address, so
/// the use of a destroyed one is noticed (fatal) and the host cannot look inside.
template <class T>
class Handles {
 public:
  /// `kind` is the noun in messages: "stream", "cuBLASLt handle". Lives until the program ends.
  explicit Handles(std::string kind) : kind_(std::move(kind)) {
    internal::register_leak_counter(kind_, [this] { return objects_.size(); });
  }

  /// The new object's handle, to be cast to the library's handle type.
  [[nodiscard]] void* create(std::shared_ptr<T> object) {
    const std::uintptr_t handle = internal::next_handle();
    objects_.emplace(handle, std::move(object));
    return reinterpret_cast<void*>(handle);
  }

  /// The live object, or null if the handle is null. Fatal if it was destroyed or never created.
  [[nodiscard]] std::shared_ptr<T> get(const void* handle, const char* call) const {
    if (handle == nullptr) return nullptr;
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) {
      fatal(std::string(call) + ": the " + kind_ + " was destroyed before, or never created");
    }
    return found->second;
  }

  /// The object, no longer alive; null if the handle is null. Fatal as get().
  std::shared_ptr<T> destroy(const void* handle, const char* call) {
    std::shared_ptr<T> object = get(handle, call);
    objects_.erase(reinterpret_cast<std::uintptr_t>(handle));
    return object;
  }

  [[nodiscard]] const std::map<std::uintptr_t, std::shared_ptr<T>>& all() const { return objects_; }

 private:
  std::string kind_;
  std::map<std::uintptr_t, std::shared_ptr<T>> objects_;
};

}  // namespace cuda_emulator
