// Cross-entropy losses and their gradients. The scores are brought into a float (or double) buffer
// a few thousand elements at a time, so any mix of dtypes runs through the same row functions.

#include <demi/ops/cross_entropy.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/registry.h"
#include "kernels/cpu/rows.h"

namespace demi::cpu {
namespace {

/// Elements that a group of rows is made to hold.
constexpr std::int64_t kGroupElements = 4096;

template <class Acc>
constexpr Acc kEpsilon = static_cast<Acc>(1e-7);

template <class Acc>
Acc clip(Acc p) {
  return std::clamp(p, kEpsilon<Acc>, 1 - kEpsilon<Acc>);
}

/// Whether clipping left p alone, so that a gradient passes. True for NaN.
template <class Acc>
bool inside(Acc p) {
  return !(p <= kEpsilon<Acc> || p >= 1 - kEpsilon<Acc>);
}

template <class Acc>
constexpr Acc kNaN = std::numeric_limits<Acc>::quiet_NaN();

/// What probabilities are divided by: their sum, or 1 for a row of zeros.
template <class Acc>
Acc norm_of(const Acc* p, std::int64_t classes) {
  const Acc sum = sum_row<Acc>(classes, [&](std::int64_t i) { return p[i]; });
  return sum == 0 ? Acc{1} : sum;
}

// ---- Integer labels: rows of scores, one label a row --------------------------------------------

template <class Acc>
Acc sparse_loss(const Acc* scores, std::int64_t classes, std::int64_t label, bool from_logits) {
  if (label < 0 || label >= classes) return kNaN<Acc>;
  if (!from_logits) return -std::log(clip(scores[label] / norm_of(scores, classes)));
  const Acc shift = max_row(scores, classes);
  const Acc sum =
      sum_row<Acc>(classes, [&](std::int64_t i) { return exponential(scores[i] - shift); });
  return std::log(sum) - (scores[label] - shift);
}

/// Replaces the scores by the gradient.
template <class Acc>
void sparse_gradient(Acc* scores, std::int64_t classes, std::int64_t label, Acc dloss,
                     bool from_logits) {
  if (label < 0 || label >= classes) {
    std::fill_n(scores, classes, kNaN<Acc>);
    return;
  }
  if (from_logits) {
    const Acc sum = exponentiate_row(scores, classes, max_row(scores, classes));
    for (std::int64_t i = 0; i < classes; ++i) scores[i] *= dloss / sum;
    scores[label] -= dloss;
    return;
  }
  const Acc norm = norm_of(scores, classes);
  const Acc p = scores[label];
  const Acc pass = inside(p / norm) ? dloss : Acc{0};
  std::fill_n(scores, classes, pass / norm);
  if (pass != 0) scores[label] -= pass / p;
}

// ---- Dense targets
// -------------------------------------------------------------------------------

template <class Acc>
Acc dense_loss(const Acc* scores, const Acc* targets, std::int64_t classes, bool from_logits) {
  if (from_logits) {
    const Acc shift = max_row(scores, classes);
    const Acc sum =
        sum_row<Acc>(classes, [&](std::int64_t i) { return exponential(scores[i] - shift); });
    const Acc log_sum = std::log(sum);
    // A class without weight counts nothing, also where its probability is 0.
    return sum_row<Acc>(classes, [&](std::int64_t i) {
      return targets[i] == 0 ? Acc{0} : targets[i] * (log_sum - (scores[i] - shift));
    });
  }
  const Acc norm = norm_of(scores, classes);
  return -sum_row<Acc>(
      classes, [&](std::int64_t i) { return targets[i] * std::log(clip(scores[i] / norm)); });
}

template <class Acc>
void dense_gradient(Acc* scores, const Acc* targets, std::int64_t classes, Acc dloss,
                    bool from_logits) {
  if (from_logits) {
    const Acc sum = exponentiate_row(scores, classes, max_row(scores, classes));
    const Acc weight = sum_row<Acc>(classes, [&](std::int64_t i) { return targets[i]; });
    for (std::int64_t i = 0; i < classes; ++i) {
      scores[i] = dloss * (scores[i] * (weight / sum) - targets[i]);
    }
    return;
  }
  const Acc norm = norm_of(scores, classes);
  const Acc weight = sum_row<Acc>(
      classes, [&](std::int64_t i) { return inside(scores[i] / norm) ? targets[i] : Acc{0}; });
  for (std::int64_t i = 0; i < classes; ++i) {
    const Acc own = inside(scores[i] / norm) ? targets[i] / scores[i] : Acc{0};
    scores[i] = dloss * (weight / norm - own);
  }
}

// ---- Binary: one loss an element
// -----------------------------------------------------------------

template <class Acc>
Acc binary_loss(Acc score, Acc target, bool from_logits) {
  if (from_logits) {
    return std::max(score, Acc{0}) - score * target + std::log1p(exponential(-std::abs(score)));
  }
  const Acc p = clip(score);
  return -(target * std::log(p) + (1 - target) * std::log(1 - p));
}

template <class Acc>
Acc binary_gradient(Acc score, Acc target, Acc dloss, bool from_logits) {
  if (from_logits) return dloss * (1 / (1 + exponential(-score)) - target);
  return inside(score) ? dloss * (score - target) / (score * (1 - score)) : Acc{0};
}

// ---- Kernels
// -------------------------------------------------------------------------------------

/// Elements rounded up so that the buffers of two threads share no cache line.
std::int64_t padded(std::int64_t elements) {
  return (elements + 15) / 16 * 16;
}

/// An input or output of the op: how to reach its elements in the accumulation type.
struct Port {
  std::int64_t size = 0;
  ConvertFn convert = nullptr;

  void load(const void* base, std::int64_t first, std::int64_t count, void* to) const {
    convert(static_cast<const char*>(base) + first * size, to, count);
  }
  void store(const void* from, void* base, std::int64_t first, std::int64_t count) const {
    convert(from, static_cast<char*>(base) + first * size, count);
  }
};

Port input_port(DType stored, DType wanted) {
  return {static_cast<std::int64_t>(size_of(stored)), converter(stored, wanted)};
}
Port output_port(DType computed, DType stored) {
  return {static_cast<std::int64_t>(size_of(stored)), converter(computed, stored)};
}

/// Which losses a kernel computes; the buffer of targets holds one label a row, or one a score.
enum class Kind { kSparse, kDense, kBinary };

/// Buffers of one thread for one group of rows.
template <class Acc, Kind kKind>
struct Buffers {
  using Target = std::conditional_t<kKind == Kind::kSparse, std::int64_t, Acc>;
  Acc* scores;
  Target* targets;
  Acc* losses;
};

/// Shapes and dtypes of a request, forward or backward.
template <class Acc, Kind kKind>
struct Problem {
  using Target = typename Buffers<Acc, kKind>::Target;

  bool from_logits;
  bool backward;
  std::int64_t rows = 1;
  std::int64_t classes = 1;
  Port dloss, scores, targets, output;

  explicit Problem(const KernelRequest& request)
      : from_logits(request.attributes.as<ops::CrossEntropyAttributes>().from_logits),
        backward(request.inputs.size() == 3) {
    const std::size_t first = backward ? 1 : 0;
    const Shape& shape = request.inputs[first].shape;
    const bool elementwise = kKind == Kind::kBinary;
    if (!elementwise) classes = shape[-1];
    const int row_axes = shape.rank() - (elementwise ? 0 : 1);
    for (int axis = 0; axis < row_axes; ++axis) rows *= shape[axis];
    dloss = input_port(request.inputs[0].dtype, dtype_of<Acc>);
    scores = input_port(request.inputs[first].dtype, dtype_of<Acc>);
    targets = input_port(request.inputs[first + 1].dtype, dtype_of<Target>);
    output = output_port(dtype_of<Acc>, request.outputs[0].dtype);
  }

  [[nodiscard]] std::int64_t group_rows() const {
    return std::max<std::int64_t>(kGroupElements / std::max<std::int64_t>(classes, 1), 1);
  }
  [[nodiscard]] std::int64_t targets_per_row() const {
    return kKind == Kind::kSparse ? 1 : classes;
  }
  [[nodiscard]] std::int64_t bytes_per_thread() const {
    const std::int64_t accs = padded(group_rows() * classes) + padded(group_rows());
    return accs * static_cast<std::int64_t>(sizeof(Acc)) +
           padded(group_rows() * targets_per_row()) * static_cast<std::int64_t>(sizeof(Target));
  }
  [[nodiscard]] Buffers<Acc, kKind> buffers(void* workspace, int thread) const {
    char* base = static_cast<char*>(workspace) + thread * bytes_per_thread();
    auto* scores_buffer = reinterpret_cast<Acc*>(base);
    Acc* losses = scores_buffer + padded(group_rows() * classes);
    return {scores_buffer, reinterpret_cast<Target*>(losses + padded(group_rows())), losses};
  }
};

template <class Acc, Kind kKind>
Acc loss_of(const Buffers<Acc, kKind>& b, std::int64_t row, std::int64_t classes, bool logits) {
  if constexpr (kKind == Kind::kSparse) {
    return sparse_loss(b.scores + row * classes, classes, b.targets[row], logits);
  } else if constexpr (kKind == Kind::kDense) {
    return dense_loss(b.scores + row * classes, b.targets + row * classes, classes, logits);
  } else {
    return binary_loss(b.scores[row], b.targets[row], logits);
  }
}

template <class Acc, Kind kKind>
void differentiate(const Buffers<Acc, kKind>& b, std::int64_t row, std::int64_t classes,
                   bool logits) {
  if constexpr (kKind == Kind::kSparse) {
    sparse_gradient(b.scores + row * classes, classes, b.targets[row], b.losses[row], logits);
  } else if constexpr (kKind == Kind::kDense) {
    dense_gradient(b.scores + row * classes, b.targets + row * classes, classes, b.losses[row],
                   logits);
  } else {
    b.scores[row] = binary_gradient(b.scores[row], b.targets[row], b.losses[row], logits);
  }
}

template <class Acc, Kind kKind>
std::unique_ptr<Kernel> make_loss_kernel(const KernelRequest& request, ThreadPool& pool) {
  const Problem<Acc, kKind> p(request);
  const auto workspace = static_cast<std::size_t>(p.bytes_per_thread() * pool.threads());
  return make_kernel("rows", workspace, [p, &pool](const KernelArguments& arguments) {
    const std::int64_t grain = p.group_rows();
    pool.parallel_for((p.rows + grain - 1) / grain, [&](std::int64_t group, int thread) {
      const Buffers<Acc, kKind> b = p.buffers(arguments.workspace, thread);
      const std::int64_t first = group * grain;
      const std::int64_t count = std::min(grain, p.rows - first);
      const std::size_t input = p.backward ? 1 : 0;
      p.scores.load(arguments.inputs[input], first * p.classes, count * p.classes, b.scores);
      p.targets.load(arguments.inputs[input + 1], first * p.targets_per_row(),
                     count * p.targets_per_row(), b.targets);
      if (p.backward) {
        p.dloss.load(arguments.inputs[0], first, count, b.losses);
        for (std::int64_t i = 0; i < count; ++i) differentiate(b, i, p.classes, p.from_logits);
        p.output.store(b.scores, arguments.outputs[0], first * p.classes, count * p.classes);
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          b.losses[i] = loss_of(b, i, p.classes, p.from_logits);
        }
        p.output.store(b.losses, arguments.outputs[0], first, count);
      }
    });
  });
}

template <Kind kKind>
std::unique_ptr<Kernel> loss_factory(const KernelRequest& request, ThreadPool& pool, std::string&) {
  const std::size_t scores = request.inputs.size() - 2;
  if (request.inputs[scores].dtype == DType::kFloat64) {
    return make_loss_kernel<double, kKind>(request, pool);
  }
  return make_loss_kernel<float, kKind>(request, pool);
}

template <Kind kKind>
void add_loss(Registry& registry, const std::string& op) {
  registry.add(op, "rows", loss_factory<kKind>);
  registry.add(op + "_backward", "rows", loss_factory<kKind>);
}

}  // namespace

void register_cross_entropy_kernels(Registry& registry) {
  add_loss<Kind::kSparse>(registry, "sparse_cross_entropy");
  add_loss<Kind::kDense>(registry, "cross_entropy");
  add_loss<Kind::kBinary>(registry, "binary_cross_entropy");
}

}  // namespace demi::cpu
