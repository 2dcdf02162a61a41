// The tensors of a convolution under test.
#pragma once

#include "kernels/cpu/conv2d.h"
#include "tests/support/conv2d_reference.h"
#include "tests/support/kernel_buffers.h"

namespace demi::cpu::testing {

struct Tensors {
  explicit Tensors(const Conv2DProblem& p)
      : x(Buffer::random(x_count(p), p.x_dtype, 1)),
        w(Buffer::random(w_count(p), p.w_dtype, 2)),
        bias(Buffer::random(p.co, p.bias_dtype, 3)),
        dy(Buffer::random(y_count(p), p.y_dtype, 4)) {}
  Buffer x;
  Buffer w;
  Buffer bias;
  Buffer dy;
};

inline Buffer forward(const Conv2DProblem& p, const Tensors& t, int threads = 2) {
  Buffer y(y_count(p), p.y_dtype);
  ThreadPool pool(threads);
  const Bytes workspace(conv2d_forward_workspace_bytes(p, threads));
  conv2d_forward(p, t.x.data(), t.w.data(), t.bias.data(), y.data(), workspace.data(), pool);
  return y;
}

}  // namespace demi::cpu::testing
