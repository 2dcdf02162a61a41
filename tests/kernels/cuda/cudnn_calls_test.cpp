// cuDNN's calls for max-pooling and batch normalization beside our own kernels: the same results,
// when each of the two is used, and what the calls refuse.
#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <demi/error.h>
#include <demi/ops/batch_norm.h>
#include <demi/ops/pooling.h>

#include "kernels/backend.h"
#include "tests/kernels/cuda/cuda_kernels.h"
#include "tests/kernels/cuda/kept_choices.h"
#include "tests/support/environment.h"
#include "tests/support/message_of.h"

namespace demi {
namespace {

using ops::Activation;
using ops::BatchNormAttributes;
using ops::Pool2DAttributes;
using testing::Environment;
using testing::expect_close;
using testing::expect_identical;
using testing::KeptChoices;
using testing::random_tensor;
using testing::rounding_unit;
using testing::run_kernel;
using testing::to_doubles;

constexpr DType kFloatingTypes[] = {float32, float64, float16, bfloat16};
constexpr double kEpsilon = 1e-3;

std::shared_ptr<Backend> backend_preferring(const std::string& wanted) {
  const Environment preference("DEMI_PREFER", wanted);
  return make_backend("cuda-emu");
}

using Tensors = std::vector<Tensor>;

std::vector<const Tensor*> addresses(const Tensors& tensors) {
  std::vector<const Tensor*> list;
  for (const Tensor& tensor : tensors) list.push_back(&tensor);
  return list;
}

class CudnnCalls : public testing::CudaKernels {
 protected:
  void SetUp() override {
    CudaKernels::SetUp();
    if (IsSkipped()) return;
    own_ = backend_preferring("own");
    cudnn_ = backend_preferring("cudnn");
    const std::string refusal = why_refused("max_pool2d", Pool2DAttributes{.from_image = true},
                                            {{{1, 4, 4, 1}, float32}}, {{{1, 2, 2, 1}, float32}});
    if (!refusal.empty()) GTEST_SKIP() << "NOT TESTED, no cuDNN: " << refusal;
  }

  /// Why the call of cuDNN is not chosen; "" if it is.
  [[nodiscard]] std::string why_refused(const char* op, const Attributes& attributes,
                                        const std::vector<TensorType>& inputs,
                                        const std::vector<TensorType>& outputs) const {
    const KernelSelection selection = cudnn_->select({op, attributes, inputs, outputs});
    return selection.kernel && selection.kernel->name() == "cudnn"
               ? ""
               : selection.refusals.at(0).reason;
  }

  /// Runs both; the results within `relative` of each other.
  void expect_agreement(const char* op, const Attributes& attributes, const Tensors& inputs,
                        double relative, double floor = 1.0) const {
    const std::string what = std::string(op) + " " + attributes.to_string() + " " +
                             std::string(to_string(inputs[0].dtype())) +
                             inputs[0].shape().to_string();
    std::string name;
    const Tensors expected =
        run_kernel(op, attributes, addresses(inputs), {.backend = own_, .selected = &name});
    EXPECT_NE(name, "cudnn") << what;
    const Tensors actual =
        run_kernel(op, attributes, addresses(inputs), {.backend = cudnn_, .selected = &name});
    EXPECT_EQ(name, "cudnn") << what;
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expect_close(actual[i], to_doubles(expected[i]), relative, floor, what);
    }
  }

  std::shared_ptr<Backend> own_, cudnn_;
};

/// One pixel, few, odd and many channels, an image of one row, ranks 2 and 3.
const Shape kNormalized[] = {{2, 3, 3, 1}, {5, 1, 1, 3},  {7, 35},       {4, 2, 3, 8},
                             {9, 130},     {3, 5, 7, 40}, {6, 11, 5, 3}, {4, 9, 16}};

/// x, gamma, beta, mean, variance; then inv_std and dy.
struct NormalizationInputs {
  explicit NormalizationInputs(const Shape& shape, DType dtype)
      : x(random_tensor(shape, dtype, 1, -2, 3)), dy(random_tensor(shape, dtype, 2)) {
    const DType wide = accumulation_dtype(dtype);
    const Shape c = {shape[-1]};
    gamma = random_tensor(c, wide, 3, 0.5, 1.5);
    beta = random_tensor(c, wide, 4);
    mean = random_tensor(c, wide, 5);
    variance = random_tensor(c, wide, 6, 0.1, 2);
  }
  Tensor x, dy, gamma, beta, mean, variance;
};

TEST_F(CudnnCalls, NormalizeLikeOurKernelsInEveryDtype) {
  for (const DType dtype : kFloatingTypes) {
    for (const Shape& shape : kNormalized) {
      const NormalizationInputs in(shape, dtype);
      const double tolerance =
          rounding_unit(dtype) * 2 + 64 * rounding_unit(accumulation_dtype(dtype));
      for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
        const BatchNormAttributes attributes{kEpsilon, activation};
        const Tensors train = testing::tensors(in.x.clone(), in.gamma.clone(), in.beta.clone());
        expect_agreement("batch_norm_train", attributes, train, tolerance);
        expect_agreement("batch_norm_inference", attributes,
                         testing::tensors(in.x.clone(), in.gamma.clone(), in.beta.clone(),
                                          in.mean.clone(), in.variance.clone()),
                         tolerance);
        Tensors outputs =
            run_kernel("batch_norm_train", attributes, addresses(train), {.backend = own_});
        Tensors backward = testing::tensors(in.dy.clone(), in.x.clone(), in.gamma.clone(),
                                            std::move(outputs[1]), std::move(outputs[3]));
        if (activation == Activation::kRelu) backward.push_back(std::move(outputs[0]));
        // Gradients of few rows are small differences of large terms.
        expect_agreement("batch_norm_backward", attributes, backward, tolerance, 40);
      }
    }
  }
}

TEST_F(CudnnCalls, GiveTheBiasedVarianceOfKeras) {
  const Tensor x = Tensor::from<float>({1, 3, 5, 11}, {4, 1});
  const Tensor one = Tensor::full({1}, 1, float32), zero = Tensor::full({1}, 0, float32);
  std::string name;
  const Tensors results = run_kernel("batch_norm_train", BatchNormAttributes{kEpsilon},
                                     {&x, &one, &zero}, {.backend = cudnn_, .selected = &name});
  EXPECT_EQ(name, "cudnn");
  EXPECT_NEAR(results[1].at(0), 5, 1e-6);
  EXPECT_NEAR(results[2].at(0), 14, 1e-4) << "56 / 4, not 56 / 3";
}

TEST_F(CudnnCalls, OfAConstantChannelHaveNoNegativeVariance) {
  const Tensor x = Tensor::full({300, 3}, 0.1, float32);
  const Tensor one = Tensor::full({3}, 1, float32), zero = Tensor::full({3}, 0, float32);
  const Tensors results = run_kernel("batch_norm_train", BatchNormAttributes{kEpsilon},
                                     {&x, &one, &zero}, {.backend = cudnn_});
  for (std::int64_t c = 0; c < 3; ++c) {
    EXPECT_GE(results[2].at(c), 0);
    EXPECT_NEAR(results[2].at(c), 0, 1e-9);
  }
}

struct PoolCase {
  Shape image;
  std::array<std::int64_t, 2> size = {2, 2};
  std::array<std::int64_t, 2> strides = {2, 2};
  ops::Padding2D padding = {};
};

/// Windows that tile, overlap, leave gaps or pixels over, padding alike on both sides.
std::vector<PoolCase> pool_cases() {
  return {{{2, 6, 8, 8}},
          {{3, 7, 5, 3}},
          {{1, 1, 1, 5}, {1, 1}, {1, 1}},
          {{2, 8, 7, 35}, {3, 2}, {2, 1}, {1, 1, 1, 1}},
          {{1, 9, 9, 17}, {2, 3}, {4, 4}},
          {{2, 6, 6, 4}, {3, 3}, {1, 1}, {1, 1, 1, 1}}};
}

TEST_F(CudnnCalls, PoolLikeOurKernelsInEveryDtype) {
  for (const DType dtype : kFloatingTypes) {
    for (const PoolCase& c : pool_cases()) {
      Pool2DAttributes attributes{.pool_size = c.size, .strides = c.strides, .padding = c.padding};
      attributes.from_image = true;
      const Tensor x = random_tensor(c.image, dtype, 1);
      for (const bool relu : {true, false}) {
        attributes.relu = relu;
        expect_agreement("max_pool2d", attributes, testing::tensors(x.clone()), 0);
      }
      Tensor y = std::move(run_kernel("max_pool2d", attributes, {&x}, {.backend = own_})[0]);
      Tensor dy = random_tensor(y.shape(), dtype, 2);
      attributes.image_size = {c.image[1], c.image[2]};
      expect_agreement("max_pool2d_backward", attributes,
                       testing::tensors(dy.clone(), x.clone(), y.clone()),
                       8 * rounding_unit(dtype));
      // From the image and from an index, our kernels give the same bits.
      Pool2DAttributes by_index = attributes;
      by_index.from_image = false;
      const Tensors pooled = run_kernel("max_pool2d", by_index, {&x}, {.backend = own_});
      expect_identical(
          run_kernel("max_pool2d_backward", attributes, {&dy, &x, &y}, {.backend = own_})[0],
          run_kernel("max_pool2d_backward", by_index, {&dy, &pooled[1]}, {.backend = own_})[0]);
    }
  }
}

TEST_F(CudnnCalls, LetANaNBeTheMaximum) {
  const Tensor x = Tensor::from<float>({5, 1, 2, NAN}, {1, 2, 2, 1});
  std::string name;
  const Pool2DAttributes attributes{.from_image = true};
  const Tensor y = std::move(
      run_kernel("max_pool2d", attributes, {&x}, {.backend = cudnn_, .selected = &name})[0]);
  EXPECT_EQ(name, "cudnn");
  EXPECT_TRUE(std::isnan(y.at(0)));
}

TEST_F(CudnnCalls, RefuseWhatCudnnCannotDo) {
  const auto refusal = [&](const char* op, const Attributes& attributes,
                           const std::vector<TensorType>& inputs,
                           const std::vector<TensorType>& outputs) {
    return why_refused(op, attributes, inputs, outputs);
  };
  const TensorType image{{2, 4, 4, 3}, float16}, pooled{{2, 2, 2, 3}, float16};
  EXPECT_EQ(refusal("max_pool2d", Pool2DAttributes{}, {image}, {pooled, {pooled.shape, uint8}}),
            "cuDNN gives and takes no index of the maxima");
  Pool2DAttributes same{.strides = {1, 1}, .padding = {0, 1, 0, 1}, .from_image = true};
  EXPECT_EQ(refusal("max_pool2d", same, {image}, {image}),
            "cuDNN pads above and below, left and right alike");
  const Pool2DAttributes from_image{.from_image = true};
  EXPECT_EQ(refusal("max_pool2d", from_image, {{{0, 4, 4, 3}, float16}}, {{{0, 2, 2, 3}, float16}}),
            "the batch is empty");
  const TensorType c{{3}, float32}, half{{3}, float16};
  EXPECT_EQ(refusal("batch_norm_inference", BatchNormAttributes{}, {image, half, c, c, c}, {image}),
            "cuDNN wants gamma, beta and statistics in float32");
  EXPECT_EQ(refusal("batch_norm_backward", BatchNormAttributes{},
                    {{image.shape, float32}, image, c, c, c}, {image, c, c}),
            "it computes tensors of one dtype");
  EXPECT_EQ(refusal("batch_norm_inference_backward", BatchNormAttributes{}, {image, image, c, c, c},
                    {image, c, c}),
            "cuDNN has no gradient with given statistics");
}

TEST_F(CudnnCalls, OfBfloat16AreRefusedForATuringGpu) {
  const Environment preference("DEMI_PREFER", "cudnn");
  const TensorType image{{2, 4, 4, 3}, bfloat16}, pooled{{2, 2, 2, 3}, bfloat16};
  const Attributes attributes = Pool2DAttributes{.from_image = true};
  const auto select = [&](const char* profile) {
    return make_planning_backend(profile)->select(
        {"max_pool2d", attributes, {&image, 1}, {&pooled, 1}});
  };
  EXPECT_EQ(select("a100").kernel->name(), "cudnn");
  const KernelSelection on_turing = select("t4");
  EXPECT_NE(on_turing.kernel->name(), "cudnn");
  EXPECT_EQ(on_turing.refusals.at(0).reason, "bfloat16 needs a GPU of compute capability 8.0");
}

TEST_F(CudnnCalls, GetBuffersOfTheirOwnForResults) {
  const Attributes attributes = BatchNormAttributes{};
  const TensorType x{{8, 4}, float32}, c{{4}, float32};
  const std::vector<TensorType> inputs = {x, c, c}, outputs = {x, c, c, c};
  const KernelRequest request = {"batch_norm_train", attributes, inputs, outputs};
  EXPECT_FALSE(cudnn_->select(request).kernel->may_overwrite_inputs());
  EXPECT_TRUE(own_->select(request).kernel->may_overwrite_inputs());
}

TEST_F(CudnnCalls, ThatFailWhenTheyAreTriedAreNotChosen) {
  const Attributes attributes = BatchNormAttributes{};
  const TensorType x{{8, 4}, float32}, c{{4}, float32};
  const std::vector<TensorType> inputs = {x, c, c}, outputs = {x, c, c, c};
  const KernelRequest request = {"batch_norm_train", attributes, inputs, outputs};
  (void)cudnn_->select(request);  // makes the handle
  const auto fail_after = DEMI_EMULATOR(demi_emulator_fail_call_after);
  constexpr int kNotSupported = 801;
  std::string reason;
  for (int calls = 0; reason.find("ForwardTraining") == std::string::npos; ++calls) {
    ASSERT_LT(calls, 20) << "the trial was not reached";
    fail_after(calls, kNotSupported);
    try {
      const KernelSelection selection = cudnn_->select(request);
      ASSERT_NE(selection.kernel, nullptr);
      EXPECT_EQ(selection.kernel->name(), "packets") << "call " << calls << " failed";
      ASSERT_FALSE(selection.refusals.empty());
      EXPECT_EQ(selection.refusals[0].candidate, "cudnn");
      reason = selection.refusals[0].reason;
    } catch (const DeviceError&) {
      // What failed was not the call but what prepares its trial.
    }
    fail_after(-1, 0);
  }
}

class PreferredKernels : public testing::EmulatedGpuTest {};

TEST_F(PreferredKernels, HaveTwoNames) {
  const Environment preference("DEMI_PREFER", "cudn");
  EXPECT_EQ(testing::message_of<std::invalid_argument>([] { (void)make_backend("cuda-emu"); }),
            "[device] expected DEMI_PREFER to be 'cudnn' or 'own'. Received: 'cudn'.");
}

/// What a new process would choose where kernels are measured.
class MeasuredCalls : public CudnnCalls {
 protected:
  [[nodiscard]] static std::string choose() {
    const auto backend = make_backend("cuda-emu");
    const Attributes attributes = BatchNormAttributes{};
    const TensorType x{{8, 4}, float32}, c{{4}, float32};
    const std::vector<TensorType> inputs = {x, c, c}, outputs = {x, c, c, c};
    return backend->select({"batch_norm_train", attributes, inputs, outputs}).kernel->name();
  }

  const KeptChoices choices_{"calls"};
  Environment preference_{"DEMI_PREFER", ""};
};

TEST_F(MeasuredCalls, AreUsedWhereTheyTakeLessTime) {
  // The emulator's time is the number of operations: three of ours, two with cuDNN.
  EXPECT_EQ(choose(), "cudnn");
  ASSERT_EQ(choices_.files().size(), 1U);
  nlohmann::json kept = KeptChoices::read(choices_.files()[0]);
  const std::string key = kept.at("key");
  for (const char* part :
       {"cudnn 9", "sm_", "batch_norm_train", "epsilon=0.001", "float32[8, 4]"}) {
    EXPECT_NE(key.find(part), std::string::npos) << key;
  }
  EXPECT_EQ(kept.at("engine"), 1);
}

TEST_F(MeasuredCalls, AreNotMeasuredAgain) {
  EXPECT_EQ(choose(), "cudnn");
  ASSERT_EQ(choices_.files().size(), 1U);
  nlohmann::json kept = KeptChoices::read(choices_.files()[0]);
  kept["engine"] = 0;
  std::ofstream(choices_.files()[0]) << kept;
  EXPECT_EQ(choose(), "packets") << "as if our kernel had been the faster one";
}

TEST_F(MeasuredCalls, AreNotMeasuredWhereOurKernelsAreWanted) {
  const Environment own("DEMI_PREFER", "own");
  EXPECT_EQ(choose(), "packets");
  EXPECT_TRUE(choices_.files().empty());
}

}  // namespace
}  // namespace demi
