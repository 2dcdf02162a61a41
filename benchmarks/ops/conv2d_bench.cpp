// Convolutions: the two of mnist_cnn at batch 128 (forward also fused with the max-pooling that
// follows), some of residual networks and of networks with many channels, 1 × 1 ones, odd ones.
// Gradients through a max-pooling count the operations of the dense computation, so their share of
// the floor may pass 1: they skip zeros.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>

#include "benchmarks/ops/floors.h"
#include "benchmarks/ops/operand.h"
#include "kernels/cpu/conv2d.h"

namespace demi::benchmarks {
namespace {

using cpu::Conv2DProblem;

struct Tensors {
  Tensors(const Conv2DProblem& p, int threads, std::size_t workspace_bytes)
      : pool(threads),
        x(p.n * p.h * p.w * p.ci, p.x_dtype),
        w(p.kh * p.kw * p.ci / p.groups * p.co, p.w_dtype),
        bias(p.co, p.bias_dtype),
        y(p.n * p.out_h() * p.out_w() * p.co, p.y_dtype),
        index(p.n * p.out_h() * p.out_w() * p.co, uint8),
        workspace(static_cast<std::int64_t>(workspace_bytes), uint8) {}
  cpu::ThreadPool pool;
  Operand x, w, bias, y, index, workspace;
};

double flops_of(const Conv2DProblem& p) {
  return 2.0 *
         static_cast<double>(p.n * p.out_h() * p.out_w() * p.kh * p.kw * p.ci / p.groups * p.co);
}

void forward(benchmark::State& state, const Conv2DProblem& p) {
  const int threads = cpu::default_thread_count();
  Tensors t(p, threads, cpu::conv2d_forward_workspace_bytes(p, threads));
  measure(state, t.pool, flops_of(p), [&] {
    cpu::conv2d_forward(p, t.x.data(), t.w.data(), t.bias.data(), t.y.data(), t.workspace.data(),
                        t.pool);
  });
}

void forward_pooled(benchmark::State& state, const Conv2DProblem& p) {
  const int threads = cpu::default_thread_count();
  Tensors t(p, threads, cpu::conv2d_forward_pooled_workspace_bytes(p, {}, threads));
  measure(state, t.pool, flops_of(p), [&] {
    cpu::conv2d_forward_pooled(p, {}, t.x.data(), t.w.data(), t.bias.data(), t.y.data(),
                               t.index.typed<std::uint8_t>(), t.workspace.data(), t.pool);
  });
}

void backward_input(benchmark::State& state, const Conv2DProblem& p) {
  const int threads = cpu::default_thread_count();
  Tensors t(p, threads, cpu::conv2d_backward_input_workspace_bytes(p, threads));
  measure(state, t.pool, flops_of(p), [&] {
    cpu::conv2d_backward_input(p, t.w.data(), t.y.data(), t.x.data(), t.workspace.data(), t.pool);
  });
}

void backward_filter(benchmark::State& state, const Conv2DProblem& p) {
  const int threads = cpu::default_thread_count();
  Tensors t(p, threads, cpu::conv2d_backward_filter_workspace_bytes(p, threads));
  measure(state, t.pool, flops_of(p), [&] {
    cpu::conv2d_backward_filter(p, t.x.data(), t.y.data(), t.w.data(), t.workspace.data(), t.pool);
  });
}

/// Half of a gradient, as a ReLU before the pooling leaves it, is zero.
void clear_half(const Operand& g, std::int64_t count, DType dtype) {
  std::uint32_t random = 7;
  const std::size_t size = size_of(dtype);
  for (std::int64_t i = 0; i < count; ++i) {
    random = random * 1664525 + 1013904223;
    if (random >> 31 != 0) std::memset(g.data() + static_cast<std::size_t>(i) * size, 0, size);
  }
}

void backward_input_pooled(benchmark::State& state, const Conv2DProblem& p) {
  const int threads = cpu::default_thread_count();
  Tensors t(p, threads, cpu::conv2d_backward_input_pooled_workspace_bytes(p, {}, threads));
  clear_half(t.y, p.n * p.out_h() * p.out_w() * p.co / 4, p.y_dtype);
  measure(state, t.pool, flops_of(p), [&] {
    cpu::conv2d_backward_input_pooled(p, {}, t.w.data(), t.y.data(), t.index.typed<std::uint8_t>(),
                                      t.x.data(), t.workspace.data(), t.pool);
  });
}

void backward_filter_pooled(benchmark::State& state, const Conv2DProblem& p) {
  const int threads = cpu::default_thread_count();
  Tensors t(p, threads, cpu::conv2d_backward_filter_pooled_workspace_bytes(p, {}, threads));
  clear_half(t.y, p.n * p.out_h() * p.out_w() * p.co / 4, p.y_dtype);
  measure(state, t.pool, flops_of(p), [&] {
    cpu::conv2d_backward_filter_pooled(p, {}, t.x.data(), t.y.data(), t.index.typed<std::uint8_t>(),
                                       t.w.data(), t.workspace.data(), t.pool);
  });
}

struct Named {
  const char* name;
  Conv2DProblem problem;
  bool pooled = false;
};

/// A square image and kernel, padded so that stride 1 keeps the extents.
Conv2DProblem same(std::int64_t n, std::int64_t size, std::int64_t ci, std::int64_t kernel,
                   std::int64_t co, std::int64_t stride = 1) {
  const std::int64_t pad = kernel - 1;
  return {.n = n,
          .h = size,
          .w = size,
          .ci = ci,
          .kh = kernel,
          .kw = kernel,
          .co = co,
          .stride_h = stride,
          .stride_w = stride,
          .pad_top = pad / 2,
          .pad_bottom = pad - pad / 2,
          .pad_left = pad / 2,
          .pad_right = pad - pad / 2};
}

int register_all() {
  using cpu::Activation;
  const Named problems[] = {
      {"mnist1", {.n = 128, .h = 28, .w = 28, .ci = 1, .kh = 3, .kw = 3, .co = 32}, true},
      {"mnist2", {.n = 128, .h = 13, .w = 13, .ci = 32, .kh = 3, .kw = 3, .co = 64}, true},
      {"first", same(64, 32, 3, 3, 16)},
      {"res16", same(64, 32, 16, 3, 16)},
      {"res64s2", same(64, 16, 32, 3, 64, 2)},
      {"vgg64", same(4, 56, 64, 3, 64)},
      {"vgg128", same(8, 28, 128, 3, 128)},
      {"vgg256", same(8, 14, 256, 3, 256)},
      {"odd35", same(16, 15, 35, 3, 35)},
      {"one64", same(16, 28, 64, 1, 256)},
      {"one256", same(16, 28, 256, 1, 64)}};
  for (const Named& named : problems) {
    for (DType dtype : {float32, float16}) {
      Conv2DProblem p = named.problem;
      p.x_dtype = p.w_dtype = p.y_dtype = p.bias_dtype = dtype;
      p.activation = Activation::kRelu;
      const auto add = [&](const char* what, auto function) {
        const std::string name =
            std::string(named.name) + "/" + what + "/" + std::string(to_string(dtype));
        benchmark::RegisterBenchmark(name.c_str(), function, p)
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      };
      add("forward", forward);
      if (named.pooled) add("forward_pooled", forward_pooled);
      add("backward_input", backward_input);
      add("backward_filter", backward_filter);
      if (named.pooled) add("backward_input_pooled", backward_input_pooled);
      if (named.pooled) add("backward_filter_pooled", backward_filter_pooled);
    }
  }
  return 0;
}

[[maybe_unused]] const int kRegistered = register_all();

}  // namespace
}  // namespace demi::benchmarks
