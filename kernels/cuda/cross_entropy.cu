// Cross-entropy losses and their gradients. A warp works on a row of scores; the binary loss is one
// of single elements. A lane reads what it has of a row before it writes there, so a gradient may
// take the place of the scores.

#include <demi/ops/cross_entropy.h>

#include "kernels/cuda/mean_cross_entropy.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/rows.cuh"

namespace demi::cuda {
namespace {

template <class Acc>
inline constexpr Acc kEpsilon = static_cast<Acc>(1e-7);

template <class Acc>
__device__ Acc clip(Acc p) {
  return p < kEpsilon<Acc> ? kEpsilon<Acc> : (p > 1 - kEpsilon<Acc> ? 1 - kEpsilon<Acc> : p);
}

/// Whether clipping leaves p alone, so that a gradient passes. True for NaN.
template <class Acc>
__device__ bool inside(Acc p) {
  return !(p <= kEpsilon<Acc> || p >= 1 - kEpsilon<Acc>);
}

/// One row of scores as a warp sees it.
template <class Acc, class Scores>
struct Row {
  Scores score;
  std::int64_t classes;
  int lane;

  /// What probabilities are divided by: their sum, or 1 for a row of zeros.
  __device__ Acc norm() const {
    const Acc sum = sum_row<Acc>(classes, lane, score);
    return sum == 0 ? Acc{1} : sum;
  }
  __device__ Acc shift() const { return max_row<Acc>(classes, lane, score); }
  __device__ Acc sum_of_exponentials(Acc shift) const {
    return sum_row<Acc>(classes, lane, [&](std::int64_t i) { return exp(score(i) - shift); });
  }
};

/// Integer labels, one a row. A label out of range makes loss and gradient NaN.
struct SparseTargets {
  template <class Acc, class Scores>
  __device__ static Acc loss(const Row<Acc, Scores>& row, const AnyInput& labels, std::int64_t r,
                             bool from_logits) {
    const auto label = labels.get<std::int64_t>(r);
    if (label < 0 || label >= row.classes) return kNaN<Acc>;
    if (!from_logits) return -log(clip(row.score(label) / row.norm()));
    const Acc shift = row.shift();
    return log(row.sum_of_exponentials(shift)) - (row.score(label) - shift);
  }

  template <class Acc, class Scores, class Store>
  __device__ static void gradient(const Row<Acc, Scores>& row, const AnyInput& labels,
                                  std::int64_t r, Acc dloss, bool from_logits, Store store) {
    const auto label = labels.get<std::int64_t>(r);
    if (label < 0 || label >= row.classes) {
      for (std::int64_t i = row.lane; i < row.classes; i += 32) store(i, kNaN<Acc>);
      return;
    }
    if (from_logits) {
      const Acc shift = row.shift();
      const Acc scale = dloss / row.sum_of_exponentials(shift);
      for (std::int64_t i = row.lane; i < row.classes; i += 32) {
        store(i, exp(row.score(i) - shift) * scale - (i == label ? dloss : Acc{0}));
      }
      return;
    }
    const Acc norm = row.norm();
    const Acc p = row.score(label);
    const Acc pass = inside(p / norm) ? dloss : Acc{0};
    const Acc own = pass != 0 ? pass / p : Acc{0};
    __syncwarp();  // p has been read by all lanes before one of them overwrites it
    for (std::int64_t i = row.lane; i < row.classes; i += 32) {
      store(i, pass / norm - (i == label ? own : Acc{0}));
    }
  }
};

/// A target for each score.
struct DenseTargets {
  template <class Acc, class Scores>
  __device__ static Acc loss(const Row<Acc, Scores>& row, const AnyInput& targets, std::int64_t r,
                             bool from_logits) {
    const std::int64_t first = r * row.classes;
    if (!from_logits) {
      const Acc norm = row.norm();
      return -sum_row<Acc>(row.classes, row.lane, [&](std::int64_t i) {
        return targets.get<Acc>(first + i) * log(clip(row.score(i) / norm));
      });
    }
    const Acc shift = row.shift();
    const Acc log_sum = log(row.sum_of_exponentials(shift));
    // A class without weight counts nothing, also where its probability is 0.
    return sum_row<Acc>(row.classes, row.lane, [&](std::int64_t i) {
      const Acc target = targets.get<Acc>(first + i);
      return target == 0 ? Acc{0} : target * (log_sum - (row.score(i) - shift));
    });
  }

  template <class Acc, class Scores, class Store>
  __device__ static void gradient(const Row<Acc, Scores>& row, const AnyInput& targets,
                                  std::int64_t r, Acc dloss, bool from_logits, Store store) {
    const auto target = [&](std::int64_t i) { return targets.get<Acc>(r * row.classes + i); };
    if (from_logits) {
      const Acc shift = row.shift();
      const Acc weight = sum_row<Acc>(row.classes, row.lane, target);
      const Acc scale = weight / row.sum_of_exponentials(shift);
      for (std::int64_t i = row.lane; i < row.classes; i += 32) {
        store(i, dloss * (exp(row.score(i) - shift) * scale - target(i)));
      }
      return;
    }
    const Acc norm = row.norm();
    const Acc weight = sum_row<Acc>(row.classes, row.lane, [&](std::int64_t i) {
      return inside(row.score(i) / norm) ? target(i) : Acc{0};
    });
    for (std::int64_t i = row.lane; i < row.classes; i += 32) {
      const Acc own = inside(row.score(i) / norm) ? target(i) / row.score(i) : Acc{0};
      store(i, dloss * (weight / norm - own));
    }
  }
};

template <class Targets, class Acc>
__global__ void loss_rows(AnyInput scores, AnyInput targets, AnyOutput losses, std::int64_t rows,
                          std::int64_t classes, bool from_logits) {
  for_rows_of_warp(rows, [&](std::int64_t r, int lane) {
    const auto score = [&](std::int64_t i) { return scores.template get<Acc>(r * classes + i); };
    const Row<Acc, decltype(score)> row{score, classes, lane};
    const Acc loss = Targets::template loss<Acc>(row, targets, r, from_logits);
    if (lane == 0) losses.set(r, loss);
  });
}

template <class Targets, class Acc>
__global__ void gradient_rows(AnyInput dlosses, AnyInput scores, AnyInput targets,
                              AnyOutput gradients, std::int64_t rows, std::int64_t classes,
                              bool from_logits) {
  for_rows_of_warp(rows, [&](std::int64_t r, int lane) {
    const auto score = [&](std::int64_t i) { return scores.template get<Acc>(r * classes + i); };
    const Row<Acc, decltype(score)> row{score, classes, lane};
    Targets::template gradient<Acc>(
        row, targets, r, dlosses.template get<Acc>(r), from_logits,
        [&](std::int64_t i, Acc value) { gradients.set(r * classes + i, value); });
  });
}

template <class Acc>
__global__ void binary_losses(AnyInput scores, AnyInput targets, AnyOutput losses,
                              std::int64_t count, bool from_logits) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
    const Acc score = scores.get<Acc>(i);
    const Acc target = targets.get<Acc>(i);
    if (from_logits) {
      // Not max(), which would drop a NaN.
      const Acc positive = score < 0 ? Acc{0} : score;
      losses.set(i, positive - score * target + log1p(exp(-fabs(score))));
    } else {
      const Acc p = clip(score);
      losses.set(i, -(target * log(p) + (1 - target) * log(1 - p)));
    }
  }
}

template <class Acc>
__global__ void binary_gradients(AnyInput dlosses, AnyInput scores, AnyInput targets,
                                 AnyOutput gradients, std::int64_t count, bool from_logits) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
    const Acc dloss = dlosses.get<Acc>(i);
    const Acc score = scores.get<Acc>(i);
    const Acc target = targets.get<Acc>(i);
    if (from_logits) {
      gradients.set(i, dloss * (1 / (1 + exp(-score)) - target));
    } else {
      gradients.set(i, inside(score) ? dloss * (score - target) / (score * (1 - score)) : Acc{0});
    }
  }
}

/// What the kernels of a request need, forward or backward; the scores stand before the targets.
struct Problem {
  explicit Problem(const KernelRequest& request)
      : from_logits(request.attributes.as<ops::CrossEntropyAttributes>().from_logits),
        scores(request.inputs.size() - 2),
        score_type(request.inputs[scores]),
        target_dtype(request.inputs[scores + 1].dtype),
        dloss_dtype(request.inputs[0].dtype),
        output_dtype(request.outputs[0].dtype) {}

  [[nodiscard]] AnyInput score_input(const KernelArguments& a) const {
    return {a.inputs[scores], score_type.dtype};
  }
  [[nodiscard]] AnyInput target_input(const KernelArguments& a) const {
    return {a.inputs[scores + 1], target_dtype};
  }
  [[nodiscard]] AnyInput dloss_input(const KernelArguments& a) const {
    return {a.inputs[0], dloss_dtype};
  }
  [[nodiscard]] AnyOutput output(const KernelArguments& a) const {
    return {a.outputs[0], output_dtype};
  }

  bool from_logits;
  std::size_t scores;
  TensorType score_type;
  DType target_dtype;
  DType dloss_dtype;
  DType output_dtype;
};

template <class Targets, class Acc>
std::unique_ptr<Kernel> make_rows(const KernelRequest& request, Context& context) {
  const Problem p(request);
  const std::int64_t classes = p.score_type.shape[-1];
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < p.score_type.shape.rank(); ++axis) {
    rows *= p.score_type.shape[axis];
  }
  const unsigned blocks = row_blocks(rows, context);
  if (p.scores == 0) {
    return make_kernel("warp per row", 0, [=, &context](const KernelArguments& a) {
      launch(&loss_rows<Targets, Acc>, blocks, kElementwiseThreads, 0, context.stream(),
             p.score_input(a), p.target_input(a), p.output(a), rows, classes, p.from_logits);
    });
  }
  return make_kernel("warp per row", 0, [=, &context](const KernelArguments& a) {
    launch(&gradient_rows<Targets, Acc>, blocks, kElementwiseThreads, 0, context.stream(),
           p.dloss_input(a), p.score_input(a), p.target_input(a), p.output(a), rows, classes,
           p.from_logits);
  });
}

template <class Acc>
std::unique_ptr<Kernel> make_binary(const KernelRequest& request, Context& context) {
  const Problem p(request);
  const std::int64_t count = p.score_type.shape.elements();
  const unsigned blocks = elementwise_blocks(count, context);
  if (p.scores == 0) {
    return make_kernel("elementwise", 0, [=, &context](const KernelArguments& a) {
      launch(&binary_losses<Acc>, blocks, kElementwiseThreads, 0, context.stream(),
             p.score_input(a), p.target_input(a), p.output(a), count, p.from_logits);
    });
  }
  return make_kernel("elementwise", 0, [=, &context](const KernelArguments& a) {
    launch(&binary_gradients<Acc>, blocks, kElementwiseThreads, 0, context.stream(),
           p.dloss_input(a), p.score_input(a), p.target_input(a), p.output(a), count,
           p.from_logits);
  });
}

bool is_double(const KernelRequest& request) {
  return request.inputs[request.inputs.size() - 2].dtype == DType::kFloat64;
}

template <class Targets>
std::unique_ptr<Kernel> rows_factory(const KernelRequest& request, Context& context, std::string&) {
  return is_double(request) ? make_rows<Targets, double>(request, context)
                            : make_rows<Targets, float>(request, context);
}

std::unique_ptr<Kernel> binary_factory(const KernelRequest& request, Context& context,
                                       std::string&) {
  return is_double(request) ? make_binary<double>(request, context)
                            : make_binary<float>(request, context);
}

}  // namespace

void register_cross_entropy_kernels(Registry& registry) {
  registry.add("mean_sparse_cross_entropy", "warp per row", make_mean_sparse_cross_entropy);
  for (const char* suffix : {"", "_backward"}) {
    const std::string end = suffix;
    registry.add("sparse_cross_entropy" + end, "warp per row", rows_factory<SparseTargets>);
    registry.add("cross_entropy" + end, "warp per row", rows_factory<DenseTargets>);
    registry.add("binary_cross_entropy" + end, "elementwise", binary_factory);
  }
}

}  // namespace demi::cuda
