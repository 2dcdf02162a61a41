// The installed cuDNN, of which everything is used that needs no GPU: descriptors, heuristics,
// plans for a described device.
#pragma once

#include <string>
#include <string_view>

#include <cudnn.h>

namespace cuda_emulator {

/// Where the installed library is: DEMI_EMULATOR_CUDNN if that is set (to the library's file, or to
/// nothing that exists, for a machine without cuDNN), else as found at configuration, else
/// libcudnn.so.9. Loaded at the first call, without making its symbols visible to others. Note
/// [Two cuDNNs]: the emulator defines functions of the same names. The library's own calls do not
/// reach them, since its parts are linked with -Bsymbolic and find each other by handle.
///
/// False, with the reason in real_cudnn_error(), where there is none.
[[nodiscard]] bool has_real_cudnn();
[[nodiscard]] const std::string& real_cudnn_error();

/// The address of a function of the installed library; fatal if it lacks it.
[[nodiscard]] void* real_cudnn_symbol(const char* name);

/// What cudnnGetLastErrorString gives until the next call: for errors found by the emulator.
cudnnStatus_t cudnn_failure(cudnnStatus_t status, std::string message);
void clear_cudnn_failure();

/// The status of calls where there is no library to judge them.
cudnnStatus_t no_real_cudnn(const char* call);

/// While one is alive, what this thread allocates is no leak: the library keeps things to its end.
class IgnoredAllocations {
 public:
  IgnoredAllocations();
  ~IgnoredAllocations();
  IgnoredAllocations(const IgnoredAllocations&) = delete;
  IgnoredAllocations& operator=(const IgnoredAllocations&) = delete;
};

/// A function of the installed library.
template <class Result, class... Arguments>
struct RealFunction {
  Result (*address)(Arguments...);

  explicit RealFunction(const char* name, Result (*)(Arguments...))
      : address(reinterpret_cast<Result (*)(Arguments...)>(real_cudnn_symbol(name))) {}
  Result operator()(Arguments... arguments) const {
    const IgnoredAllocations ignored;
    return address(arguments...);
  }
};

}  // namespace cuda_emulator

/// The installed function of that name, typed as the header declares it.
#define DEMI_REAL_CUDNN(name)                                          \
  ([]() -> const auto& {                                               \
    static const cuda_emulator::RealFunction function(#name, &::name); \
    return function;                                                   \
  }())
