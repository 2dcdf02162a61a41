// Kernels of the family unary: elementwise functions and the gradients of activations.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/registry.h"

namespace demi::cpu {
namespace {

// Each function is computed in C: float, double or (those that have integer results) int64, which
// wraps around.

struct Negative {
  template <class C>
  static C apply(C x) {
    if constexpr (std::is_integral_v<C>) return static_cast<C>(-static_cast<std::uint64_t>(x));
    return -x;
  }
};
struct Abs {
  template <class C>
  static C apply(C x) {
    if constexpr (std::is_integral_v<C>) return x < 0 ? Negative::apply(x) : x;
    return std::abs(x);
  }
};
struct Square {
  template <class C>
  static C apply(C x) {
    if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(x));
    }
    return x * x;
  }
};
struct Reciprocal {
  template <class C>
  static C apply(C x) {
    return C{1} / x;
  }
};
struct Sign {
  template <class C>
  static C apply(C x) {
    return x > 0 ? C{1} : (x < 0 ? C{-1} : x);  // also ±0 and NaN
  }
};
struct Exp {
  template <class C>
  static C apply(C x) {
    return exponential(x);
  }
};
struct Log {
  template <class C>
  static C apply(C x) {
    return logarithm(x);
  }
};
struct Sqrt {
  template <class C>
  static C apply(C x) {
    return std::sqrt(x);
  }
};
struct Softplus {
  template <class C>
  static C apply(C x) {
    return softplus(x);
  }
};
struct Relu {
  template <class C>
  static C apply(C x) {
    return x < 0 ? C{0} : x;
  }
};
struct Sigmoid {
  template <class C>
  static C apply(C x) {
    return sigmoid(x);
  }
};
struct Tanh {
  template <class C>
  static C apply(C x) {
    return hyperbolic_tangent(x);
  }
};
struct Gelu {
  template <class C>
  static C apply(C x) {
    const C finite = x < C{-40} ? C{-40} : x;  // -inf · 0 would be NaN
    return finite * normal_distribution(x).cumulative;
  }
};

struct ReluBackward {
  template <class C>
  static C apply(C dy, C y) {
    return y > 0 ? dy : C{0};
  }
};
struct SigmoidBackward {
  template <class C>
  static C apply(C dy, C y) {
    return dy * (y * (1 - y));
  }
};
struct TanhBackward {
  template <class C>
  static C apply(C dy, C y) {
    return dy * (1 - y * y);
  }
};
struct GeluBackward {
  template <class C>
  static C apply(C dy, C x) {
    const Normal<C> normal = normal_distribution(x);
    const C finite = x < C{-40} ? C{-40} : (x > C{40} ? C{40} : x);
    return dy * (normal.cumulative + finite * normal.density);
  }
};

template <class Op, std::size_t Inputs>
std::unique_ptr<Kernel> make_floating(const KernelRequest& request, ThreadPool& pool,
                                      std::string& reason) {
  const DType dtype = request.outputs[0].dtype;
  if (!is_floating(dtype)) {
    reason = "integers are not supported";
    return nullptr;
  }
  if (dtype == float64) return make_elementwise<Op, double, double, Inputs>(request, pool);
  return make_elementwise<Op, float, float, Inputs>(request, pool);
}

template <class Op>
std::unique_ptr<Kernel> make_number(const KernelRequest& request, ThreadPool& pool, std::string&) {
  return dispatch_compute(request.outputs[0].dtype, [&]<class Compute>() {
    return make_elementwise<Op, Compute, Compute, 1>(request, pool);
  });
}

}  // namespace

void register_unary_kernels(Registry& registry) {
  registry.add("negative", "elementwise", make_number<Negative>);
  registry.add("abs", "elementwise", make_number<Abs>);
  registry.add("square", "elementwise", make_number<Square>);
  registry.add("reciprocal", "elementwise", make_floating<Reciprocal, 1>);
  registry.add("sign", "elementwise", make_number<Sign>);
  registry.add("exp", "elementwise", make_floating<Exp, 1>);
  registry.add("log", "elementwise", make_floating<Log, 1>);
  registry.add("sqrt", "elementwise", make_floating<Sqrt, 1>);
  registry.add("softplus", "elementwise", make_floating<Softplus, 1>);
  registry.add("relu", "elementwise", make_number<Relu>);
  registry.add("sigmoid", "elementwise", make_floating<Sigmoid, 1>);
  registry.add("tanh", "elementwise", make_floating<Tanh, 1>);
  registry.add("gelu", "elementwise", make_floating<Gelu, 1>);
  registry.add("relu_backward", "elementwise", make_floating<ReluBackward, 2>);
  registry.add("sigmoid_backward", "elementwise", make_floating<SigmoidBackward, 2>);
  registry.add("tanh_backward", "elementwise", make_floating<TanhBackward, 2>);
  registry.add("gelu_backward", "elementwise", make_floating<GeluBackward, 2>);
}

}  // namespace demi::cpu
