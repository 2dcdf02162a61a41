// What calls of cuDNN's API before operation graphs need: descriptors of dense NHWC tensors, and
// kernels that make such calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <cudnn.h>

#include <demi/dtype.h>
#include <demi/error.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/context.h"
#include "kernels/kernel.h"

namespace demi::cuda::cudnn {

/// An owned descriptor; its functions are its type. Throws DeviceError if cuDNN cannot make one.
template <class Handle, auto create, auto destroy>
class CallDescriptor {
 public:
  CallDescriptor() { DEMI_CUDA_CHECK(create(&handle_)); }
  ~CallDescriptor() {
    if (handle_ != nullptr) (void)destroy(handle_);
  }
  CallDescriptor(CallDescriptor&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  CallDescriptor& operator=(CallDescriptor&&) = delete;

  [[nodiscard]] Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

/// A dense tensor of `n` images of h × w pixels of c channels.
class TensorDescriptor
    : public CallDescriptor<cudnnTensorDescriptor_t, &cudnnCreateTensorDescriptor,
                            &cudnnDestroyTensorDescriptor> {
 public:
  TensorDescriptor(DType dtype, int n, int h, int w, int c);
};

/// The factors of a call, y = alpha · result + beta · y, as it wants them for tensors of a dtype.
class Factors {
 public:
  explicit Factors(DType dtype) : is_double_(dtype == DType::kFloat64) {}
  [[nodiscard]] const void* one() const { return is_double_ ? address(&kOne) : &kOneSingle; }
  [[nodiscard]] const void* zero() const { return is_double_ ? address(&kZero) : &kZeroSingle; }

 private:
  static const void* address(const double* value) { return value; }

  static constexpr double kOne = 1, kZero = 0;
  static constexpr float kOneSingle = 1, kZeroSingle = 0;

  bool is_double_;
};

/// Whether these calls take tensors of a dtype on the context's GPU.
[[nodiscard]] bool takes_dtype(DType dtype, const Context& context, std::string& reason);

/// A kernel "cudnn" of one call of cuDNN and `own_launches` of ours. cuDNN does not say of these
/// calls that they work in place, so outputs get buffers of their own.
template <class Body>
[[nodiscard]] std::unique_ptr<Kernel> make_call(std::string call, std::size_t workspace_bytes,
                                                int own_launches, Body body) {
  class CallKernel final : public Kernel {
   public:
    CallKernel(std::string call, std::size_t workspace_bytes, int own_launches, Body body)
        : Kernel("cudnn", workspace_bytes, 1 + own_launches),
          call_(std::move(call)),
          body_(std::move(body)) {}
    void run(const KernelArguments& arguments) override { body_(arguments); }
    [[nodiscard]] bool may_overwrite_inputs() const override { return false; }
    [[nodiscard]] std::string description() const override {
      return name() + ": " + call_ + ", " + std::to_string(launches() - 1) + " own launches";
    }

   private:
    std::string call_;
    Body body_;
  };
  return std::make_unique<CallKernel>(std::move(call), workspace_bytes, own_launches,
                                      std::move(body));
}

/// make(), or null and cuDNN's explanation (or that it is missing) in `reason`.
template <class Make>
[[nodiscard]] std::unique_ptr<Kernel> or_reason(std::string& reason, Make&& make) {
  try {
    return make();
  } catch (const DeviceError& error) {
    reason = error.what();
    return nullptr;
  }
}

}  // namespace demi::cuda::cudnn
