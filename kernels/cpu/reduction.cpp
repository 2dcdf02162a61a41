// Kernels of the family reduction.

#include <demi/ops/reduction.h>

#include <cstdint>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/registry.h"

namespace demi::cpu {
namespace {

template <Reduction kReduction>
std::unique_ptr<Kernel> make_over_axes(const KernelRequest& request, ThreadPool& pool,
                                       std::string&) {
  AxisSet axes;
  for (const int axis : request.attributes.as<ops::ReductionAttributes>().axes) {
    axes.set(static_cast<std::size_t>(axis));
  }
  return make_reduction(kReduction, request.inputs[0], axes, request.outputs[0].dtype, pool);
}

/// The input of argmax seen as [outer, length, inner].
struct ArgmaxLayout {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
};

/// Whether `value` replaces `best`, which comes earlier: the first NaN is the maximum.
template <class C>
bool replaces(C value, C best) {
  return value > best || (value != value && best == best);
}

template <class C>
class ArgmaxKernel final : public Kernel {
 public:
  ArgmaxKernel(const ArgmaxLayout& layout, DType dtype, ThreadPool& pool)
      : Kernel("scan"),
        layout_(layout),
        size_(static_cast<std::int64_t>(size_of(dtype))),
        load_(converter(dtype, dtype_of<C>)),
        pool_(pool) {}

  void run(const KernelArguments& arguments) override {
    const auto* x = arguments.input<char>(0);
    auto* y = arguments.output<std::int32_t>(0);
    if (layout_.inner == 0) return;
    const std::int64_t grain =
        std::max<std::int64_t>(1, kElementwiseGrain / (layout_.length * layout_.inner));
    for_ranges(pool_, layout_.outer, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        const char* from = x + o * layout_.length * layout_.inner * size_;
        if (layout_.inner == 1) {
          y[o] = scan_row(from);
        } else {
          scan_columns(from, y + o * layout_.inner);
        }
      }
    });
  }

 private:
  [[nodiscard]] std::int32_t scan_row(const char* from) const {
    alignas(64) C block[kElementBlock];
    C best{};
    std::int64_t at = 0;
    for (std::int64_t begin = 0; begin < layout_.length; begin += kElementBlock) {
      const std::int64_t n = std::min(kElementBlock, layout_.length - begin);
      load_(from + begin * size_, block, n);
      if (begin == 0) best = block[0];
      for (std::int64_t i = 0; i < n; ++i) {
        if (!replaces(block[i], best)) continue;
        best = block[i];
        at = begin + i;
      }
    }
    return static_cast<std::int32_t>(at);
  }

  void scan_columns(const char* from, std::int32_t* y) const {
    alignas(64) C best[kElementBlock];
    alignas(64) C row[kElementBlock];
    for (std::int64_t begin = 0; begin < layout_.inner; begin += kElementBlock) {
      const std::int64_t n = std::min(kElementBlock, layout_.inner - begin);
      load_(from + begin * size_, best, n);
      std::fill(y + begin, y + begin + n, 0);
      for (std::int64_t l = 1; l < layout_.length; ++l) {
        load_(from + (l * layout_.inner + begin) * size_, row, n);
        for (std::int64_t i = 0; i < n; ++i) {
          if (!replaces(row[i], best[i])) continue;
          best[i] = row[i];
          y[begin + i] = static_cast<std::int32_t>(l);
        }
      }
    }
  }

  const ArgmaxLayout layout_;
  const std::int64_t size_;
  const ConvertFn load_;
  ThreadPool& pool_;
};

std::unique_ptr<Kernel> make_argmax(const KernelRequest& request, ThreadPool& pool,
                                    std::string& reason) {
  const TensorType& x = request.inputs[0];
  const int reduced = request.attributes.as<ops::ReductionAttributes>().axes.front();
  ArgmaxLayout layout;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    (axis < reduced    ? layout.outer
     : axis == reduced ? layout.length
                       : layout.inner) *= x.shape[axis];
  }
  if (layout.length > INT32_MAX) {
    reason = "an index would not fit into int32";
    return nullptr;
  }
  return dispatch_compute(x.dtype, [&]<class C>() -> std::unique_ptr<Kernel> {
    return std::make_unique<ArgmaxKernel<C>>(layout, x.dtype, pool);
  });
}

}  // namespace

void register_reduction_kernels(Registry& registry) {
  registry.add("sum", "reduce", make_over_axes<Reduction::kSum>);
  registry.add("mean", "reduce", make_over_axes<Reduction::kMean>);
  registry.add("max", "reduce", make_over_axes<Reduction::kMax>);
  registry.add("argmax", "scan", make_argmax);
}

}  // namespace demi::cpu
