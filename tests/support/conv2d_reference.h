// Convolutions by their definition, in double, and the problems they are compared on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/conv2d.h"
#include "tests/support/kernel_buffers.h"

namespace demi::cpu::testing {

[[nodiscard]] std::int64_t x_count(const Conv2DProblem& problem);
[[nodiscard]] std::int64_t w_count(const Conv2DProblem& problem);
[[nodiscard]] std::int64_t y_count(const Conv2DProblem& problem);
[[nodiscard]] std::int64_t pooled_count(const Conv2DProblem& problem, const PoolWindow& window);

[[nodiscard]] Reference reference_forward(const Conv2DProblem& problem, const Buffer& x,
                                          const Buffer& w, const Buffer& bias);
[[nodiscard]] Reference reference_backward_input(const Conv2DProblem& problem, const Buffer& w,
                                                 const Buffer& dy);
[[nodiscard]] Reference reference_backward_filter(const Conv2DProblem& problem, const Buffer& x,
                                                  const Buffer& dy);

struct Pooled {
  Buffer y;
  std::vector<std::uint8_t> index;
};

/// Max-pools the output `values` of a convolution; they stay as they are but for rounding to
/// y_dtype.
[[nodiscard]] Pooled reference_pool(const Conv2DProblem& problem, const PoolWindow& window,
                                    const Buffer& values);

/// The gradient by the output, from that by the pooled values.
[[nodiscard]] Buffer reference_unpool(const Conv2DProblem& problem, const PoolWindow& window,
                                      const Buffer& g, const std::vector<std::uint8_t>& index);

/// Sizes and options that meet every path: odd channels, one pixel, empty batch, strides, dilation,
/// groups, asymmetric padding, several strips and blocks.
[[nodiscard]] std::vector<Conv2DProblem> many_problems();
[[nodiscard]] std::string describe(const Conv2DProblem& problem);

}  // namespace demi::cpu::testing
