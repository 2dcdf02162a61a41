// Launches of kernels that a C++ compiler compiled.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#include <cuda_runtime.h>

namespace cuda_emulator {

struct KernelArgument {
  const void* address;
  std::size_t bytes;
};

/// A kernel with its arguments. `thread` runs one thread of it.
struct KernelLaunch {
  const void* function;
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
  std::function<void()> thread;
  std::vector<KernelArgument> arguments;  ///< point into what `thread` owns
};

/// Checks the launch against the limits of the device and queues it. Fatal if an argument holds a
/// pointer that the device may not follow.
cudaError_t launch(KernelLaunch launch);

/// Zeroes the bytes of an object between its members, where the compiler can.
template <class T>
void clear_padding([[maybe_unused]] T& object) {
#if defined(__GNUC__) && !defined(__clang__)
  // An empty object has no bytes of its own: a tuple keeps a neighbour there.
  if constexpr (std::is_class_v<T> && !std::is_empty_v<T>) __builtin_clear_padding(&object);
#endif
}

/// What <<<grid, block, shared_bytes, stream>>> does: the arguments are copied now, the kernel runs
/// when something waits for the stream.
template <class... Parameters>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                          std::size_t shared_bytes, cudaStream_t stream,
                          std::type_identity_t<Parameters>... arguments) {
  const auto copies = std::make_shared<std::tuple<Parameters...>>(arguments...);
  // What padding holds by chance could look like an address.
  std::apply([](Parameters&... copy) { (clear_padding(copy), ...); }, *copies);
  KernelLaunch description{reinterpret_cast<const void*>(kernel),
                           grid,
                           block,
                           shared_bytes,
                           stream,
                           [kernel, copies] { std::apply(kernel, *copies); },
                           {}};
  std::apply(
      [&](const Parameters&... copy) {
        (description.arguments.push_back({static_cast<const void*>(&copy), sizeof(copy)}), ...);
      },
      *copies);
  return launch(std::move(description));
}

}  // namespace cuda_emulator
