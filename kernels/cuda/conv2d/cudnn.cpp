#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <demi/error.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/conv2d/candidates.h"
#include "kernels/cuda/conv2d/problem.h"
#include "kernels/cuda/conv2d/staging.h"
#include "kernels/cuda/cudnn/select_plan.h"

namespace demi::cuda {
namespace {

/// The alignment cuDNN expects of a workspace; that of a kernel's own is less.
constexpr std::size_t kAlignment = 256;

/// Pieces of a kernel's workspace, each aligned to kAlignment.
class Pieces {
 public:
  /// The offset of a new piece.
  std::size_t reserve(std::size_t bytes) {
    return std::exchange(bytes_, bytes_ + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  [[nodiscard]] std::size_t workspace_bytes() const {
    return bytes_ == 0 ? 0 : bytes_ + kAlignment;
  }
  /// Where the offsets count from.
  [[nodiscard]] static std::byte* base(void* workspace) {
    const auto address = reinterpret_cast<std::uintptr_t>(workspace);
    const std::uintptr_t aligned = (address + kAlignment - 1) / kAlignment * kAlignment;
    return static_cast<std::byte*>(workspace) + (aligned - address);
  }

 private:
  std::size_t bytes_ = 0;
};

/// A plan of cuDNN between launches of ours.
class CudnnKernel final : public Kernel {
 public:
  /// Runs everything; `base` is Pieces::base of the workspace.
  using Body =
      std::function<void(const KernelArguments& arguments, cudnn::Plan& plan, std::byte* base)>;

  CudnnKernel(std::string name, const Pieces& pieces, cudnn::Plan plan, int own_launches, Body body)
      : Kernel(std::move(name), pieces.workspace_bytes(), 1 + own_launches),
        plan_(std::move(plan)),
        body_(std::move(body)) {}

  void run(const KernelArguments& arguments) override {
    body_(arguments, plan_, Pieces::base(arguments.workspace));
  }

  [[nodiscard]] TensorCores tensor_cores() const override {
    return plan_.uses_tensor_cores() ? TensorCores::kYes : TensorCores::kNo;
  }

  [[nodiscard]] std::string description() const override {
    return fmt::format("{}: {}; 1 call of cuDNN, {} own launches", name(), plan_.description(),
                       launches() - 1);
  }

 private:
  cudnn::Plan plan_;
  Body body_;
};

/// Whether cuDNN is asked at all. `computed` are the dtypes of the operands it works on.
bool cudnn_applies(const Conv2DProblem& problem, std::initializer_list<DType> computed,
                   const Context& context, std::string& reason) {
  const DType dtype = *computed.begin();
  const bool one = std::all_of(computed.begin(), computed.end(),
                               [dtype](DType other) { return other == dtype; });
  if (!one || (dtype != float32 && dtype != float16 && dtype != bfloat16)) {
    reason = "cuDNN's convolutions are of float32, float16 or bfloat16, the same for all operands";
    return false;
  }
  const DeviceProperties& device = context.properties();
  if (dtype == bfloat16 && !device.supports_bfloat16()) {
    reason = fmt::format("bfloat16 needs compute capability 8.0; {} has {}.{}", device.name,
                         device.compute_capability / 10, device.compute_capability % 10);
    return false;
  }
  if (problem.n == 0) {
    reason = "the batch is empty";
    return false;
  }
  return true;
}

bool has_no_pooling(const KernelRequest& request, std::string& reason) {
  if (!request.attributes.as<ops::Conv2DAttributes>().has_pool) return true;
  reason = "a pooling follows";
  return false;
}

/// A graph made by build(graph) and the plan for it.
template <class Build>
std::optional<cudnn::Plan> plan_graph(Context& context, const Conv2DProblem& problem,
                                      std::string_view op, std::string& reason, Build&& build) {
  std::shared_ptr<cudnn::Graph> graph;
  try {
    graph = std::make_shared<cudnn::Graph>(context);
    build(*graph);
    if (!graph->finalize(reason)) return std::nullopt;
  } catch (const DeviceError& error) {
    // What cuDNN does not take, or its absence.
    reason = error.what();
    return std::nullopt;
  }
  return cudnn::select_plan(context,
                            {.graph = graph,
                             .sixteen_bit = problem.x_dtype != float32,
                             .key = std::string(op) + " " + problem.key()},
                            reason);
}

cudnn::Convolution geometry_of(const Conv2DProblem& problem) {
  return {.pad_before = {problem.pad_top, problem.pad_left},
          .pad_after = {problem.pad_bottom, problem.pad_right},
          .strides = {problem.stride_h, problem.stride_w},
          .dilation = {problem.dilation_h, problem.dilation_w}};
}

cudnn::Extents x_extents(const Conv2DProblem& p) {
  return {p.n, p.h, p.w, p.ci};
}
cudnn::Extents y_extents(const Conv2DProblem& p) {
  return {p.n, p.oh, p.ow, p.co};
}
cudnn::Extents filter_extents(const Conv2DProblem& p) {
  return {p.co, p.kh, p.kw, p.group_in()};
}

/// Whether the filter lies as cuDNN wants it (Note [Filter layouts]).
bool filter_lies_right(const Conv2DProblem& problem) {
  return problem.filter_is_ohwi || problem.taps() == 1 || problem.co == 1;
}

/// A filter that cuDNN reads, transposed into the workspace if it must be.
class FilterOperand {
 public:
  FilterOperand(const Conv2DProblem& problem, Pieces& pieces)
      : problem_(problem), in_place_(filter_lies_right(problem)) {
    if (!in_place_) offset_ = pieces.reserve(filter_bytes());
  }

  [[nodiscard]] int launches() const { return in_place_ ? 0 : 1; }

  [[nodiscard]] void* prepare(const void* filter, std::byte* base, cudaStream_t stream) const {
    // cuDNN's variant packs have no const.
    if (in_place_) return const_cast<void*>(filter);
    transpose_convert(filter, problem_.filter_dtype, base + offset_, problem_.filter_dtype,
                      problem_.taps(), problem_.co, stream);
    return base + offset_;
  }

 private:
  [[nodiscard]] std::size_t filter_bytes() const {
    return static_cast<std::size_t>(problem_.taps() * problem_.co) * size_of(problem_.filter_dtype);
  }

  Conv2DProblem problem_;
  bool in_place_;
  std::size_t offset_ = 0;
};

/// A filter gradient that cuDNN writes in the dtype of x, transposed and converted afterwards where
/// it must be.
class FilterResult {
 public:
  FilterResult(const Conv2DProblem& problem, Pieces& pieces)
      : problem_(problem),
        in_place_(filter_lies_right(problem) && problem.filter_dtype == problem.x_dtype) {
    if (in_place_) return;
    offset_ = pieces.reserve(static_cast<std::size_t>(problem.taps() * problem.co) *
                             size_of(problem.x_dtype));
  }

  [[nodiscard]] int launches() const { return in_place_ ? 0 : 1; }

  /// Where cuDNN is to write.
  [[nodiscard]] void* target(void* dw, std::byte* base) const {
    return in_place_ ? dw : base + offset_;
  }

  void finish(void* dw, std::byte* base, cudaStream_t stream) const {
    if (in_place_) return;
    transpose_convert(base + offset_, problem_.x_dtype, dw, problem_.filter_dtype, problem_.co,
                      problem_.taps(), stream);
  }

 private:
  Conv2DProblem problem_;
  bool in_place_;
  std::size_t offset_ = 0;
};

/// A bias in the dtype of x, as precompiled engines want it; zeros for a problem without one.
class BiasOperand {
 public:
  BiasOperand(const Conv2DProblem& problem, Pieces& pieces)
      : problem_(problem),
        bytes_(static_cast<std::size_t>(problem.co) * size_of(problem.x_dtype)),
        in_place_(problem.has_bias && problem.bias_dtype == problem.x_dtype) {
    if (!in_place_) offset_ = pieces.reserve(bytes_);
  }

  [[nodiscard]] int launches() const { return in_place_ ? 0 : 1; }

  [[nodiscard]] void* prepare(const KernelArguments& arguments, std::byte* base,
                              cudaStream_t stream) const {
    if (in_place_) return const_cast<void*>(arguments.inputs[2]);
    void* bias = base + offset_;
    if (problem_.has_bias) {
      convert(arguments.inputs[2], problem_.bias_dtype, bias, problem_.x_dtype, problem_.co,
              stream);
    } else {
      DEMI_CUDA_CHECK(cudaMemsetAsync(bias, 0, bytes_, stream));
    }
    return bias;
  }

 private:
  Conv2DProblem problem_;
  std::size_t bytes_;
  bool in_place_;
  std::size_t offset_ = 0;
};

/// Precompiled engines apply an activation after a bias only.
bool has_epilogue(const Conv2DProblem& problem) {
  return problem.has_bias || problem.relu;
}

/// y = activation(convolution + bias) in one graph; what lies between is float32. Whether relu
/// passes NaN is up to the engine (few carry CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP).
void build_forward(const Conv2DProblem& problem, cudnn::Graph& graph) {
  const cudnn::Extents extents = y_extents(problem);
  const cudnn::TensorId x = graph.tensor(x_extents(problem), problem.x_dtype);
  const cudnn::TensorId filter = graph.tensor(filter_extents(problem), problem.x_dtype);
  const cudnn::TensorId y = graph.tensor(extents, problem.x_dtype);
  if (!has_epilogue(problem)) {
    graph.convolve(geometry_of(problem), x, filter, y);
    return;
  }
  const cudnn::TensorId bias = graph.tensor({1, 1, 1, problem.co}, problem.x_dtype);
  const cudnn::TensorId product = graph.intermediate(extents);
  const cudnn::TensorId sum = problem.relu ? graph.intermediate(extents) : y;
  graph.convolve(geometry_of(problem), x, filter, product);
  graph.add(product, bias, sum);
  if (problem.relu) graph.relu(sum, y);
}

}  // namespace

std::unique_ptr<Kernel> make_cudnn_forward(const KernelRequest& request, Context& context,
                                           std::string& reason) {
  if (!has_no_pooling(request, reason)) return nullptr;
  const Conv2DProblem problem = conv2d_problem(request);
  const auto dtypes = {problem.x_dtype, problem.filter_dtype, problem.y_dtype};
  if (!cudnn_applies(problem, dtypes, context, reason)) return nullptr;
  std::optional<cudnn::Plan> plan =
      plan_graph(context, problem, request.op, reason,
                 [&](cudnn::Graph& graph) { build_forward(problem, graph); });
  if (!plan) return nullptr;
  Pieces pieces;
  const FilterOperand filter(problem, pieces);
  std::optional<BiasOperand> bias;
  if (has_epilogue(problem)) bias.emplace(problem, pieces);
  const std::size_t rest = pieces.reserve(plan->workspace_bytes());
  const int own = filter.launches() + (bias ? bias->launches() : 0);
  const cudaStream_t stream = context.stream();
  return std::make_unique<CudnnKernel>(
      "cudnn", pieces, std::move(*plan), own,
      [=](const KernelArguments& a, cudnn::Plan& p, std::byte* base) {
        void* pointers[4] = {const_cast<void*>(a.inputs[0]),
                             filter.prepare(a.inputs[1], base, stream), a.outputs[0], nullptr};
        if (bias) pointers[3] = bias->prepare(a, base, stream);
        p.run({pointers, bias ? 4U : 3U}, base + rest);
      });
}

std::unique_ptr<Kernel> make_cudnn_forward_then_bias(const KernelRequest& request, Context& context,
                                                     std::string& reason) {
  if (!has_no_pooling(request, reason)) return nullptr;
  const Conv2DProblem problem = conv2d_problem(request);
  if (!has_epilogue(problem)) {
    reason = "nothing follows the convolution";
    return nullptr;
  }
  const auto dtypes = {problem.x_dtype, problem.filter_dtype, problem.y_dtype};
  if (!cudnn_applies(problem, dtypes, context, reason)) return nullptr;
  Conv2DProblem alone = problem;
  alone.has_bias = false;
  alone.relu = false;
  std::optional<cudnn::Plan> plan =
      plan_graph(context, alone, request.op, reason,
                 [&](cudnn::Graph& graph) { build_forward(alone, graph); });
  if (!plan) return nullptr;
  Pieces pieces;
  const FilterOperand filter(alone, pieces);
  const std::size_t rest = pieces.reserve(plan->workspace_bytes());
  const cudaStream_t stream = context.stream();
  return std::make_unique<CudnnKernel>(
      "cudnn_then_bias", pieces, std::move(*plan), filter.launches() + 1,
      [=](const KernelArguments& a, cudnn::Plan& p, std::byte* base) {
        void* const pointers[] = {const_cast<void*>(a.inputs[0]),
                                  filter.prepare(a.inputs[1], base, stream), a.outputs[0]};
        p.run(pointers, base + rest);
        add_bias_activation(a.outputs[0], problem.y_dtype, problem.has_bias ? a.inputs[2] : nullptr,
                            problem.bias_dtype, problem.relu, problem.pixels(), problem.co, stream);
      });
}

std::unique_ptr<Kernel> make_cudnn_backward_input(const KernelRequest& request, Context& context,
                                                  std::string& reason) {
  const Conv2DProblem problem = conv2d_backward_input_problem(request);
  const auto dtypes = {problem.x_dtype, problem.filter_dtype, problem.y_dtype};
  if (!cudnn_applies(problem, dtypes, context, reason)) return nullptr;
  std::optional<cudnn::Plan> plan =
      plan_graph(context, problem, request.op, reason, [&](cudnn::Graph& graph) {
        const cudnn::TensorId dy = graph.tensor(y_extents(problem), problem.x_dtype);
        const cudnn::TensorId filter = graph.tensor(filter_extents(problem), problem.x_dtype);
        const cudnn::TensorId dx = graph.tensor(x_extents(problem), problem.x_dtype);
        graph.convolve_backward_input(geometry_of(problem), dy, filter, dx);
      });
  if (!plan) return nullptr;
  Pieces pieces;
  const FilterOperand filter(problem, pieces);
  const std::size_t rest = pieces.reserve(plan->workspace_bytes());
  const cudaStream_t stream = context.stream();
  return std::make_unique<CudnnKernel>(
      "cudnn", pieces, std::move(*plan), filter.launches(),
      [=](const KernelArguments& a, cudnn::Plan& p, std::byte* base) {
        void* const pointers[] = {const_cast<void*>(a.inputs[0]),
                                  filter.prepare(a.inputs[1], base, stream), a.outputs[0]};
        p.run(pointers, base + rest);
      });
}

std::unique_ptr<Kernel> make_cudnn_backward_filter(const KernelRequest& request, Context& context,
                                                   std::string& reason) {
  const Conv2DProblem problem = conv2d_backward_filter_problem(request);
  if (problem.filter_dtype == float64) {
    reason = "the gradient is wanted in float64";
    return nullptr;
  }
  if (!cudnn_applies(problem, {problem.x_dtype, problem.y_dtype}, context, reason)) return nullptr;
  std::optional<cudnn::Plan> plan =
      plan_graph(context, problem, request.op, reason, [&](cudnn::Graph& graph) {
        const cudnn::TensorId x = graph.tensor(x_extents(problem), problem.x_dtype);
        const cudnn::TensorId dy = graph.tensor(y_extents(problem), problem.x_dtype);
        const cudnn::TensorId dw = graph.tensor(filter_extents(problem), problem.x_dtype);
        graph.convolve_backward_filter(geometry_of(problem), x, dy, dw);
      });
  if (!plan) return nullptr;
  Pieces pieces;
  const FilterResult result(problem, pieces);
  const std::size_t rest = pieces.reserve(plan->workspace_bytes());
  const cudaStream_t stream = context.stream();
  return std::make_unique<CudnnKernel>(
      "cudnn", pieces, std::move(*plan), result.launches(),
      [=](const KernelArguments& a, cudnn::Plan& p, std::byte* base) {
        void* const pointers[] = {const_cast<void*>(a.inputs[0]), const_cast<void*>(a.inputs[1]),
                                  result.target(a.outputs[0], base)};
        p.run(pointers, base + rest);
        result.finish(a.outputs[0], base, stream);
      });
}

}  // namespace demi::cuda
