// Kernels of the family unary: elementwise functions and the gradients of activations.

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/scalars.h"

namespace demi::cuda {
namespace {

struct Negative {
  template <class C>
  __device__ static C apply(C x) {
    if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(-static_cast<std::uint64_t>(x));
    } else {
      return -x;
    }
  }
};
struct Abs {
  template <class C>
  __device__ static C apply(C x) {
    if constexpr (std::is_integral_v<C>) {
      return x < 0 ? Negative::apply(x) : x;
    } else {
      return fabs(x);
    }
  }
};
struct Square {
  template <class C>
  __device__ static C apply(C x) {
    if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(x));
    } else {
      return x * x;
    }
  }
};
struct Reciprocal {
  template <class C>
  __device__ static C apply(C x) {
    return C{1} / x;
  }
};
struct Sign {
  template <class C>
  __device__ static C apply(C x) {
    return x > 0 ? C{1} : (x < 0 ? C{-1} : x);  // also ±0 and NaN
  }
};
struct Exp {
  template <class C>
  __device__ static C apply(C x) {
    return exp(x);
  }
};
struct Log {
  template <class C>
  __device__ static C apply(C x) {
    return log(x);
  }
};
struct Sqrt {
  template <class C>
  __device__ static C apply(C x) {
    return sqrt(x);
  }
};
struct Softplus {
  template <class C>
  __device__ static C apply(C x) {
    const C tail = log1p(exp(-fabs(x)));
    return x > 0 ? x + tail : (x <= 0 ? tail : x);
  }
};
struct Relu {
  template <class C>
  __device__ static C apply(C x) {
    return relu(x);
  }
};
struct Sigmoid {
  template <class C>
  __device__ static C apply(C x) {
    const C e = exp(-fabs(x));
    return (x < 0 ? e : C{1}) / (C{1} + e);
  }
};
struct Tanh {
  template <class C>
  __device__ static C apply(C x) {
    return tanh(x);
  }
};

/// A point of the standard normal distribution.
template <class C>
struct Normal {
  C density;     ///< exp(-x² / 2) / sqrt(2π)
  C cumulative;  ///< Φ(x)
};

template <class C>
__device__ Normal<C> normal_distribution(C x) {
  constexpr C kSqrtHalf = static_cast<C>(0.70710678118654752440);
  constexpr C kRest = static_cast<C>(0.70710678118654752440 - kSqrtHalf);
  constexpr C kFar = 40;  // beyond, the density and the lower tail are 0
  const C bounded = x < -kFar ? -kFar : (x > kFar ? kFar : x);
  // In the tails both are steep: the rounding errors of their arguments are put back.
  const C square = bounded * bounded;
  const C e = exp(C(-0.5) * square) * (1 - C(0.5) * fma(bounded, bounded, -square));
  const C z = -bounded * kSqrtHalf;
  const C lost = fma(-bounded, kSqrtHalf, -z) - bounded * kRest;
  const C slope = static_cast<C>(1.1283791670955126) * e;  // of erfc at z, up to its sign
  return {static_cast<C>(0.39894228040143267794) * e, C(0.5) * (erfc(z) - slope * lost)};
}

struct Gelu {
  template <class C>
  __device__ static C apply(C x) {
    const C finite = x < C{-40} ? C{-40} : x;  // -inf · 0 would be NaN
    return finite * normal_distribution(x).cumulative;
  }
};

struct ReluBackward {
  template <class C>
  __device__ static C apply(C dy, C y) {
    return y > 0 ? dy : C{0};
  }
};
struct SigmoidBackward {
  template <class C>
  __device__ static C apply(C dy, C y) {
    return dy * (y * (1 - y));
  }
};
struct TanhBackward {
  template <class C>
  __device__ static C apply(C dy, C y) {
    return dy * (1 - y * y);
  }
};
struct GeluBackward {
  template <class C>
  __device__ static C apply(C dy, C x) {
    const Normal<C> normal = normal_distribution(x);
    const C finite = x < C{-40} ? C{-40} : (x > C{40} ? C{40} : x);
    return dy * (normal.cumulative + finite * normal.density);
  }
};

template <class Op, int kInputs>
void add_floating(Registry& registry, const char* name) {
  registry.add(name, "packets", packets_factory<Op, kInputs>);
  registry.add(name, "any", floating_factory<Op, kInputs>);
}

template <class Op>
void add_number(Registry& registry, const char* name) {
  registry.add(name, "packets", packets_factory<Op, 1>);
  registry.add(name, "any", number_factory<Op, 1>);
}

/// Of one number, as optimizers need of the loss scale.
std::unique_ptr<Kernel> make_scalar_reciprocal(const KernelRequest& request, Context& context,
                                               std::string& reason) {
  const TensorType& x = request.inputs[0];
  if (x != request.outputs[0] || x.dtype != DType::kFloat32 || x.shape.elements() != 1) {
    reason = "it is of one float32 number";
    return nullptr;
  }
  const auto describe = [](const KernelArguments& a) {
    return ScalarInstruction{.inputs = {a.inputs[0]}, .outputs = {a.outputs[0]}};
  };
  return std::make_unique<ScalarKernel>("scalar", ScalarOp::kReciprocal, describe, context);
}

}  // namespace

void register_unary_kernels(Registry& registry) {
  add_number<Negative>(registry, "negative");
  add_number<Abs>(registry, "abs");
  add_number<Square>(registry, "square");
  registry.add("reciprocal", "scalar", make_scalar_reciprocal);
  add_floating<Reciprocal, 1>(registry, "reciprocal");
  add_number<Sign>(registry, "sign");
  add_floating<Exp, 1>(registry, "exp");
  add_floating<Log, 1>(registry, "log");
  add_floating<Sqrt, 1>(registry, "sqrt");
  add_floating<Softplus, 1>(registry, "softplus");
  add_number<Relu>(registry, "relu");
  add_floating<Sigmoid, 1>(registry, "sigmoid");
  add_floating<Tanh, 1>(registry, "tanh");
  add_floating<Gelu, 1>(registry, "gelu");
  add_floating<ReluBackward, 2>(registry, "relu_backward");
  add_floating<SigmoidBackward, 2>(registry, "sigmoid_backward");
  add_floating<TanhBackward, 2>(registry, "tanh_backward");
  add_floating<GeluBackward, 2>(registry, "gelu_backward");
}

}  // namespace demi::cuda
