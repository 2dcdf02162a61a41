// Kernel: one prepared launch, and the description it is prepared from.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/attributes.h"
#include "src/core/tensor_type.h"

namespace demi {

/// What a kernel must do: one IR node without its graph. Shapes are concrete.
struct KernelRequest {
  std::string_view op;
  const Attributes& attributes;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
};

/// Addresses on the kernel's device, in the order of the request. Buffers are aligned to 64 bytes
/// and do not overlap, except that an output may be the buffer of an input where the op says so
/// (OpDef::reusable_inputs, unless the kernel refuses; OpDef::overwrites). `workspace` has
/// workspace_bytes() bytes, aligned to 64, with unspecified contents.
struct KernelArguments {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* workspace;

  template <class T>
  [[nodiscard]] const T* input(std::size_t index) const {
    return static_cast<const T*>(inputs[index]);
  }
  template <class T>
  [[nodiscard]] T* output(std::size_t index) const {
    return static_cast<T*>(outputs[index]);
  }
};

/// Whether a kernel's products run on tensor cores.
enum class TensorCores {
  kNo,
  kYes,
  kUnknown,  ///< a library chooses on the device, which is not there
};

/// Immutable once made: shapes, dtypes and algorithm are fixed, run() only launches. run() must not
/// allocate, and may be called with different addresses each time, from one thread at a time.
class Kernel {
 public:
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  virtual void run(const KernelArguments& arguments) = 0;

  /// The candidate's name, "gemm" or "direct", for reports.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The name and what else was chosen, where there was a choice: an engine, its settings.
  [[nodiscard]] virtual std::string description() const { return name_; }
  [[nodiscard]] virtual TensorCores tensor_cores() const { return TensorCores::kNo; }
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// What one run gives the device to do: starts of kernels, calls of libraries, and fills.
  [[nodiscard]] int launches() const { return launches_; }
  /// Whether an output may be the buffer of an input where the op says that it may.
  [[nodiscard]] virtual bool may_overwrite_inputs() const { return true; }

 protected:
  explicit Kernel(std::string name, std::size_t workspace_bytes = 0, int launches = 1)
      : name_(std::move(name)), workspace_bytes_(workspace_bytes), launches_(launches) {}

 private:
  std::string name_;
  std::size_t workspace_bytes_;
  int launches_;
};

/// A kernel from a callable `body(const KernelArguments&)`, which makes `launches` launches.
template <class Body>
[[nodiscard]] std::unique_ptr<Kernel> make_kernel(std::string name, std::size_t workspace_bytes,
                                                  Body body, int launches = 1,
                                                  TensorCores tensor_cores = TensorCores::kNo) {
  class BodyKernel final : public Kernel {
   public:
    BodyKernel(std::string name, std::size_t workspace_bytes, Body body, int launches,
               TensorCores tensor_cores)
        : Kernel(std::move(name), workspace_bytes, launches),
          body_(std::move(body)),
          tensor_cores_(tensor_cores) {}
    void run(const KernelArguments& arguments) override { body_(arguments); }
    [[nodiscard]] TensorCores tensor_cores() const override { return tensor_cores_; }

   private:
    Body body_;
    TensorCores tensor_cores_;
  };
  return std::make_unique<BodyKernel>(std::move(name), workspace_bytes, std::move(body), launches,
                                      tensor_cores);
}

/// What became of a request: the kernel of the first candidate that accepted, and why those before
/// it refused. `kernel` is null if all did.
struct KernelSelection {
  struct Refusal {
    std::string candidate;
    std::string reason;
  };
  std::unique_ptr<Kernel> kernel;
  std::vector<Refusal> refusals;
};

}  // namespace demi
