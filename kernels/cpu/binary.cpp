// Kernels of the family binary: arithmetic, comparisons and selection with broadcasting.

#include <demi/ops/binary.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/registry.h"

namespace demi::cpu {
namespace {

// Each operation is computed in C: float, double or int64, whose arithmetic wraps around.

template <class C>
using Wrapping = std::conditional_t<std::is_integral_v<C>, std::uint64_t, C>;

struct Add {
  template <class C>
  static C apply(C a, C b) {
    return static_cast<C>(static_cast<Wrapping<C>>(a) + static_cast<Wrapping<C>>(b));
  }
};
struct Subtract {
  template <class C>
  static C apply(C a, C b) {
    return static_cast<C>(static_cast<Wrapping<C>>(a) - static_cast<Wrapping<C>>(b));
  }
};
struct Multiply {
  template <class C>
  static C apply(C a, C b) {
    return static_cast<C>(static_cast<Wrapping<C>>(a) * static_cast<Wrapping<C>>(b));
  }
};
struct Divide {
  template <class C>
  static C apply(C a, C b) {
    return a / b;
  }
};
struct Maximum {
  template <class C>
  static C apply(C a, C b) {
    return b > a || b != b ? b : a;
  }
};
struct Minimum {
  template <class C>
  static C apply(C a, C b) {
    return b < a || b != b ? b : a;
  }
};
struct Power {
  template <class C>
  static C apply(C a, C b) {
    return b == C{2} ? a * a : std::pow(a, b);
  }
};
struct Equal {
  template <class C>
  static bool apply(C a, C b) {
    return a == b;
  }
};
struct Greater {
  template <class C>
  static bool apply(C a, C b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <class C>
  static bool apply(C a, C b) {
    return a >= b;
  }
};
struct Identity {
  template <class C>
  static C apply(C x) {
    return x;
  }
};

template <class Op>
std::unique_ptr<Kernel> make_arithmetic(const KernelRequest& request, ThreadPool& pool,
                                        std::string&) {
  return dispatch_compute(request.outputs[0].dtype,
                          [&]<class C>() { return make_elementwise<Op, C, C, 2>(request, pool); });
}

template <class Op>
std::unique_ptr<Kernel> make_floating(const KernelRequest& request, ThreadPool& pool,
                                      std::string& reason) {
  const DType dtype = request.outputs[0].dtype;
  if (!is_floating(dtype)) {
    reason = "integers are not supported";
    return nullptr;
  }
  if (dtype == float64) return make_elementwise<Op, double, double, 2>(request, pool);
  return make_elementwise<Op, float, float, 2>(request, pool);
}

template <class Op>
std::unique_ptr<Kernel> make_comparison(const KernelRequest& request, ThreadPool& pool,
                                        std::string&) {
  const DType dtype = promote(request.inputs[0].dtype, request.inputs[1].dtype);
  return dispatch_compute(
      dtype, [&]<class C>() { return make_elementwise<Op, C, bool, 2>(request, pool); });
}

template <class C>
std::unique_ptr<Kernel> make_where_in(const KernelRequest& request, ThreadPool& pool) {
  const Shape& shape = request.outputs[0].shape;
  const auto run = [&pool, count = shape.elements(),
                    writer = ResultWriter<C>(request.outputs[0].dtype),
                    condition = Operand<bool>(request.inputs[0], shape),
                    a = Operand<C>(request.inputs[1], shape),
                    b = Operand<C>(request.inputs[2], shape)](const KernelArguments& arguments) {
    for_ranges(pool, count, kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
      typename Operand<bool>::Reader read_condition(condition, arguments.inputs[0]);
      typename Operand<C>::Reader read_a(a, arguments.inputs[1]);
      typename Operand<C>::Reader read_b(b, arguments.inputs[2]);
      alignas(64) C buffer[kElementBlock];
      for (std::int64_t at = begin; at < end; at += kElementBlock) {
        const std::int64_t n = std::min(kElementBlock, end - at);
        const bool* choose = read_condition.block(at, n);
        const C* from_a = read_a.block(at, n);
        const C* from_b = read_b.block(at, n);
        C* out = writer.block(arguments.outputs[0], at, buffer);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) out[i] = choose[i] ? from_a[i] : from_b[i];
        writer.finish(arguments.outputs[0], at, n, out);
      }
    });
  };
  return make_kernel("elementwise", 0, run);
}

std::unique_ptr<Kernel> make_where(const KernelRequest& request, ThreadPool& pool, std::string&) {
  return dispatch_compute(request.outputs[0].dtype,
                          [&]<class C>() { return make_where_in<C>(request, pool); });
}

std::unique_ptr<Kernel> make_broadcast_to(const KernelRequest& request, ThreadPool& pool,
                                          std::string&) {
  return dispatch_compute(request.outputs[0].dtype, [&]<class C>() {
    return make_elementwise<Identity, C, C, 1>(request, pool);
  });
}

std::unique_ptr<Kernel> make_sum_to(const KernelRequest& request, ThreadPool& pool, std::string&) {
  const TensorType& x = request.inputs[0];
  const TensorType& y = request.outputs[0];
  AxisSet axes;
  for (int axis = -1; axis >= -x.shape.rank(); --axis) {
    const bool kept = axis >= -y.shape.rank() && y.shape[axis] == x.shape[axis];
    if (!kept) axes.set(static_cast<std::size_t>(x.shape.normalize_axis(axis)));
  }
  return make_reduction(Reduction::kSum, x, axes, y.dtype, pool);
}

}  // namespace

void register_binary_kernels(Registry& registry) {
  registry.add("add", "elementwise", make_arithmetic<Add>);
  registry.add("subtract", "elementwise", make_arithmetic<Subtract>);
  registry.add("multiply", "elementwise", make_arithmetic<Multiply>);
  registry.add("divide", "elementwise", make_floating<Divide>);
  registry.add("maximum", "elementwise", make_arithmetic<Maximum>);
  registry.add("minimum", "elementwise", make_arithmetic<Minimum>);
  registry.add("power", "elementwise", make_floating<Power>);
  registry.add("equal", "elementwise", make_comparison<Equal>);
  registry.add("greater", "elementwise", make_comparison<Greater>);
  registry.add("greater_equal", "elementwise", make_comparison<GreaterEqual>);
  registry.add("where", "elementwise", make_where);
  registry.add("broadcast_to", "elementwise", make_broadcast_to);
  registry.add("sum_to", "reduce", make_sum_to);
}

}  // namespace demi::cpu
