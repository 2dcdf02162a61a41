// The plain product, which takes what cuBLASLt refuses.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <demi/ops/matmul.h>

#include "tests/kernels/cuda/cuda_kernels.h"

namespace demi {
namespace {

using testing::expect_close;
using testing::random_tensor;
using testing::rounding_unit;
using testing::run_kernel;
using testing::to_doubles;

using CudaMatmul = testing::CudaKernels;

constexpr std::int64_t kM = 37, kN = 45, kK = 50;  // several tiles of 16 each way, none full

std::vector<double> product(const Tensor& a, const Tensor& b, const Tensor* bias,
                            const ops::MatmulAttributes& attributes) {
  const std::vector<double> x = to_doubles(a), w = to_doubles(b);
  std::vector<double> y;
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) {
      double sum = bias == nullptr ? 0 : bias->at(j);
      for (std::int64_t k = 0; k < kK; ++k) {
        const std::int64_t left = attributes.transpose_a ? k * kM + i : i * kK + k;
        const std::int64_t right = attributes.transpose_b ? j * kK + k : k * kN + j;
        sum += x[static_cast<std::size_t>(left)] * w[static_cast<std::size_t>(right)];
      }
      y.push_back(attributes.activation == ops::Activation::kRelu && sum < 0 ? 0 : sum);
    }
  }
  return y;
}

TEST_F(CudaMatmul, MultipliesWhatCublasltRefuses) {
  struct Types {
    DType inputs, stored;
  };
  for (const Types types : {Types{float32, float64}, {float32, float16}, {float16, bfloat16}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const bool with_bias : {false, true}) {
          // With a bias cuBLASLt sums 16-bit results in float32 for a kernel that adds it.
          if (with_bias && types.stored != float64) continue;
          ops::MatmulAttributes attributes;
          attributes.transpose_a = transpose_a;
          attributes.transpose_b = transpose_b;
          attributes.has_bias = with_bias;
          if (transpose_a) attributes.activation = ops::Activation::kRelu;
          const Tensor a =
              random_tensor(transpose_a ? Shape{kK, kM} : Shape{kM, kK}, types.inputs, 1);
          const Tensor b =
              random_tensor(transpose_b ? Shape{kN, kK} : Shape{kK, kN}, types.inputs, 2);
          const Tensor bias = random_tensor({kN}, types.inputs, 3);
          std::vector<const Tensor*> inputs = {&a, &b};
          if (with_bias) inputs.push_back(&bias);
          std::string name;
          const auto y = run_kernel("matmul", attributes, inputs,
                                    {.device = kDevice, .store = types.stored, .selected = &name});
          EXPECT_EQ(name, "direct");
          const double sums = kK * rounding_unit(types.stored == float64 ? float64 : float32);
          expect_close(y[0], product(a, b, with_bias ? &bias : nullptr, attributes),
                       rounding_unit(types.stored) * 2 + sums, 1.0, ops::describe(attributes));
        }
      }
    }
  }
}

}  // namespace
}  // namespace demi
