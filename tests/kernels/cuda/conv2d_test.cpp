// What is particular to the CUDA kernels of the family conv2d; tests/ops/conv2d_test.cpp has the
// rest.
#include <dlfcn.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <demi/ops/conv2d.h>
#include <demi/ops/movement.h>

#include "tests/support/emulated_gpu.h"
#include "tests/support/op_harness.h"
#include "tests/support/run_kernel.h"

namespace demi {
namespace {

using ops::Activation;
using ops::Conv2DAttributes;
using testing::expect_close;
using testing::random_tensor;
using testing::rounding_unit;
using testing::run_kernel;
using testing::to_doubles;

constexpr const char* kDevice = "cuda-emu";

class CudaConv2D : public testing::EmulatedGpuTest {
 protected:
  /// Expects the device's result to be the CPU's, up to the order of sums and `roundings` to
  /// `rounded`; returns the name of the device's kernel.
  static std::string expect_agreement(const char* op, const Conv2DAttributes& attributes,
                                      const std::vector<const Tensor*>& inputs,
                                      std::optional<DType> store, DType rounded, int roundings) {
    std::string name;
    const std::vector<Tensor> expected =
        run_kernel(op, attributes, inputs, {.device = "cpu", .store = store});
    const std::vector<Tensor> actual =
        run_kernel(op, attributes, inputs, {.device = kDevice, .store = store, .selected = &name});
    EXPECT_EQ(actual[0].dtype(), expected[0].dtype());
    expect_close(actual[0], to_doubles(expected[0]), roundings * 2 * rounding_unit(rounded), 1.0,
                 std::string(op) + " by " + name);
    return name;
  }

  const Tensor x_ = random_tensor({2, 9, 8, 5}, float16, 1);
  const Tensor filter_ = random_tensor({3, 3, 5, 7}, float16, 2);
  const Tensor bias_ = random_tensor({7}, float32, 3);
  const Tensor dy_ = random_tensor({2, 7, 6, 7}, float16, 4);
};

TEST_F(CudaConv2D, ConvertABiasOfAnotherDtype) {
  const Conv2DAttributes attributes{.has_bias = true, .activation = Activation::kRelu};
  EXPECT_EQ(expect_agreement("conv2d", attributes, {&x_, &filter_, &bias_}, {}, float16, 2),
            "cudnn");
}

TEST_F(CudaConv2D, ConvertAFilterGradientOfAnotherDtype) {
  const Conv2DAttributes attributes{.result_size = {3, 3}};
  EXPECT_EQ(
      expect_agreement("conv2d_backward_filter", attributes, {&x_, &dy_}, float32, float16, 8),
      "cudnn");
}

TEST_F(CudaConv2D, ComputeMixedDtypesThemselves) {
  const Tensor filter = random_tensor({3, 3, 5, 7}, float32, 5);
  EXPECT_EQ(expect_agreement("conv2d", {}, {&x_, &filter}, {}, float32, 20), "direct");
  EXPECT_EQ(expect_agreement("conv2d", {}, {&x_, &filter_}, float32, float32, 20), "direct");
  const Conv2DAttributes image{.result_size = {9, 8}};
  EXPECT_EQ(expect_agreement("conv2d_backward_input", image, {&dy_, &filter}, {}, float32, 20),
            "direct");
  const Tensor dy = random_tensor({2, 7, 6, 7}, bfloat16, 6);
  const Conv2DAttributes window{.result_size = {3, 3}};
  EXPECT_EQ(expect_agreement("conv2d_backward_filter", window, {&x_, &dy}, {}, float32, 40),
            "direct");
}

/// Lets cuDNN's next plans fail, as if no engine supported them.
void refuse_plans(int count) {
  void* emulator = dlopen("libdemi_cuda_emulator.so", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(emulator, nullptr) << dlerror();
  auto* refuse = reinterpret_cast<void (*)(int)>(dlsym(emulator, "demi_emulator_refuse_plans"));
  ASSERT_NE(refuse, nullptr) << dlerror();
  refuse(count);
  dlclose(emulator);
}

TEST_F(CudaConv2D, FallBackStepByStep) {
  const Conv2DAttributes attributes{.has_bias = true, .activation = Activation::kRelu};
  const std::vector<const Tensor*> inputs = {&x_, &filter_, &bias_};
  std::vector<std::string> names;
  // More plans than there are, then fewer until those without an epilogue are reached.
  for (int refused = 1024; refused > 0 && names.size() < 2; refused /= 2) {
    refuse_plans(refused);
    const std::string name = expect_agreement("conv2d", attributes, inputs, {}, float16, 3);
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  refuse_plans(0);
  EXPECT_EQ(names, (std::vector<std::string>{"direct", "cudnn_then_bias"}));
}

TEST_F(CudaConv2D, PassNanThroughRelu) {
  Tensor x = random_tensor({1, 4, 4, 2}, float64, 7);
  x.data<double>()[0] = std::nan("");
  const Tensor filter = random_tensor({1, 1, 2, 3}, float64, 8);
  const Conv2DAttributes attributes{.activation = Activation::kRelu};
  const std::vector<Tensor> y =
      run_kernel("conv2d", attributes, {&x, &filter}, {.device = kDevice});
  EXPECT_TRUE(std::isnan(y[0].at(0)));
  EXPECT_FALSE(std::isnan(y[0].at(3))) << "the next pixel";
}

/// [kh, kw, ci, co] as [co, kh, kw, ci].
Tensor ohwi(const Tensor& filter) {
  return std::move(run_kernel("transpose", ops::TransposeAttributes{{3, 0, 1, 2}}, {&filter},
                              {.device = "cpu"})[0]);
}

TEST_F(CudaConv2D, TakeFiltersInTheOrderOfCudnnWithoutFurtherLaunches) {
  const Tensor bias = random_tensor({7}, float16, 3);
  const Tensor filter = ohwi(filter_);
  // cuDNN's kernels and, for float64, our own.
  for (const DType dtype : {float16, float64}) {
    SCOPED_TRACE(to_string(dtype));
    const Tensor x = x_.to(dtype), b = bias.to(dtype), dy = dy_.to(dtype);
    const Tensor w = filter_.to(dtype), transposed = filter.to(dtype);
    Conv2DAttributes forward{.has_bias = true, .activation = Activation::kRelu};
    Conv2DAttributes image{.result_size = {9, 8}}, window{.result_size = {3, 3}};
    const Tensor y = std::move(run_kernel("conv2d", forward, {&x, &w, &b}, {.device = "cpu"})[0]);
    const Tensor dx =
        std::move(run_kernel("conv2d_backward_input", image, {&dy, &w}, {.device = "cpu"})[0]);
    const Tensor dw =
        ohwi(run_kernel("conv2d_backward_filter", window, {&x, &dy}, {.device = "cpu"})[0]);
    for (Conv2DAttributes* attributes : {&forward, &image, &window}) {
      attributes->filter_layout = ops::FilterLayout::kOhwi;
    }
    const auto expect = [&](const char* op, const Conv2DAttributes& attributes,
                            const std::vector<const Tensor*>& inputs, const Tensor& expected) {
      const std::vector<Tensor> actual = run_kernel(op, attributes, inputs, {.device = kDevice});
      EXPECT_EQ(actual[0].shape(), expected.shape());
      expect_close(actual[0], to_doubles(expected), 16 * rounding_unit(dtype), 1.0, op);
      std::vector<TensorType> types;
      for (const Tensor* input : inputs) types.push_back({input->shape(), input->dtype()});
      const TensorType result{expected.shape(), dtype};
      const auto kernel =
          testing::test_backend(kDevice)->select({op, attributes, types, {&result, 1}}).kernel;
      EXPECT_EQ(kernel->launches(), 1) << op << ": " << kernel->description();
    };
    expect("conv2d", forward, {&x, &transposed, &b}, y);
    expect("conv2d_backward_input", image, {&dy, &transposed}, dx);
    expect("conv2d_backward_filter", window, {&x, &dy}, dw);
  }
}

TEST_F(CudaConv2D, SumFilterGradientsInPartsInTheOrderOfCudnn) {
  // float64, many pixels: several blocks share a sum.
  const Tensor x = random_tensor({40, 9, 9, 4}, float64, 1);
  const Tensor dy = random_tensor({40, 7, 7, 6}, float64, 2);
  Conv2DAttributes attributes{.groups = 2, .result_size = {3, 3}};
  const Tensor expected =
      ohwi(run_kernel("conv2d_backward_filter", attributes, {&x, &dy}, {.device = "cpu"})[0]);
  attributes.filter_layout = ops::FilterLayout::kOhwi;
  const std::vector<Tensor> actual =
      run_kernel("conv2d_backward_filter", attributes, {&x, &dy}, {.device = kDevice});
  expect_close(actual[0], to_doubles(expected), 1e-12, 1.0, "parts");
}

}  // namespace
}  // namespace demi
