// What the emulated cuDNN refuses and what it stops at.
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/cuda_emulator/support/cudnn_graph_fixture.h"

namespace cuda_emulator::testing {
namespace {

using CudnnExecute = CudnnTest;

/// A planned convolution of halves and its memory.
class Prepared {
 public:
  Prepared(cudnnHandle_t handle, const Case& shape, cudnnBackendDescriptorType_t which = kForward)
      : x(Storage::kHalf, random_values(count_of(shape.x().extents), Storage::kHalf, 1)),
        filter(Storage::kHalf, random_values(count_of(shape.filter().extents), Storage::kHalf, 2)),
        y(Storage::kHalf, count_of(shape.y().extents)),
        workspace(Storage::kFloat, 1 << 22) {
    builder.convolution(which, shape.spec, shape.x(), shape.filter(), shape.y());
    plan = builder.plan(handle);
  }
  cudnnBackendDescriptor_t pack(void* x_address, void* filter_address, void* y_address,
                                void* workspace_address) {
    return builder.variant_pack({{1, x_address}, {2, filter_address}, {3, y_address}},
                                workspace_address);
  }

  Builder builder;
  DeviceArray x, filter, y, workspace;
  cudnnBackendDescriptor_t plan = nullptr;
};

TEST_F(CudnnExecute, RefusesAVariantPackThatDoesNotFitThePlan) {
  Prepared p(handle_, kSmall);
  ASSERT_NE(p.plan, nullptr);
  cudnnBackendDescriptor_t missing =
      p.builder.variant_pack({{1, p.x.get()}, {3, p.y.get()}}, p.workspace.get());
  EXPECT_EQ(cudnnBackendExecute(handle_, p.plan, missing), CUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(last_error().find("lacks tensor 2"), std::string::npos);
  cudnnBackendDescriptor_t null_address = p.pack(p.x.get(), nullptr, p.y.get(), p.workspace.get());
  EXPECT_EQ(cudnnBackendExecute(handle_, p.plan, null_address),
            CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  cudnnBackendDescriptor_t misaligned =
      p.pack(p.x.bytes() + 2, p.filter.get(), p.y.get(), p.workspace.get());
  EXPECT_EQ(cudnnBackendExecute(handle_, p.plan, misaligned),
            CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  EXPECT_EQ(cudnnBackendExecute(nullptr, p.plan, misaligned), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(cudnnBackendExecute(handle_, misaligned, p.plan), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
}

TEST_F(CudnnExecute, RefusesAPlanThatWasNotFinalized) {
  Prepared p(handle_, kSmall);
  cudnnBackendDescriptor_t plan = p.builder.create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  EXPECT_EQ(cudnnBackendExecute(handle_, plan,
                                p.pack(p.x.get(), p.filter.get(), p.y.get(), p.workspace.get())),
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
}

using CudnnExecuteDeathTest = CudnnTest;

TEST_F(CudnnExecuteDeathTest, StopsAtMemoryThatIsNotTheDevices) {
  Prepared p(handle_, kSmall);
  alignas(256) static std::byte host[4096];
  EXPECT_DEATH((void)cudnnBackendExecute(
                   handle_, p.plan, p.pack(host, p.filter.get(), p.y.get(), p.workspace.get())),
               "tensor 1 needs 1344 bytes of one device allocation");
  EXPECT_DEATH(
      (void)cudnnBackendExecute(
          handle_, p.plan, p.pack(p.x.bytes() + 16, p.filter.get(), p.y.get(), p.workspace.get())),
      "from its address there are 13");
  EXPECT_DEATH(
      (void)cudnnBackendExecute(handle_, p.plan,
                                p.pack(p.x.get(), p.filter.get(), p.x.get(), p.workspace.get())),
      "tensor 1 overlaps tensor 3");
}

TEST_F(CudnnExecuteDeathTest, StopsAtAWorkspaceThatIsTooSmallOrMisaligned) {
  // Which plans need workspace differs from device to device.
  std::unique_ptr<Prepared> prepared;
  for (const auto which : {kForward, kBackwardData, kBackwardFilter}) {
    for (const std::int64_t channels : {1, 3, 8, 64}) {
      if (prepared != nullptr && prepared->builder.workspace_bytes(prepared->plan) > 0) break;
      Case shape = kSmall;
      shape.c = channels;
      shape.k = 2 * channels;
      prepared = std::make_unique<Prepared>(handle_, shape, which);
    }
  }
  Prepared& p = *prepared;
  if (p.builder.workspace_bytes(p.plan) == 0)
    GTEST_SKIP() << "NOT TESTED, no plan needs workspace on this device";
  EXPECT_EQ(
      cudnnBackendExecute(handle_, p.plan, p.pack(p.x.get(), p.filter.get(), p.y.get(), nullptr)),
      CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_DEATH(
      (void)cudnnBackendExecute(
          handle_, p.plan, p.pack(p.x.get(), p.filter.get(), p.y.get(), p.workspace.bytes() + 64)),
      "not aligned to 256");
  const DeviceArray little(Storage::kHalf, 8);
  EXPECT_DEATH((void)cudnnBackendExecute(
                   handle_, p.plan, p.pack(p.x.get(), p.filter.get(), p.y.get(), little.get())),
               "the workspace needs");
}

TEST_F(CudnnExecuteDeathTest, StopsAtDestroyedObjects) {
  cudnnHandle_t other = nullptr;
  ASSERT_EQ(cudnnCreate(&other), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnDestroy(other), CUDNN_STATUS_SUCCESS);
  EXPECT_DEATH((void)cudnnSetStream(other, stream_), "cuDNN handle was destroyed");
  cudnnBackendDescriptor_t descriptor = nullptr;
  ASSERT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnBackendDestroyDescriptor(descriptor), CUDNN_STATUS_SUCCESS);
  EXPECT_DEATH((void)cudnnBackendFinalize(descriptor), "descriptor was destroyed");
}

TEST_F(CudnnExecute, RefusesAsManyPlansAsAsked) {
  demi_emulator_refuse_plans(2);
  Builder builder;
  builder.convolution(kForward, kSmall.spec, kSmall.x(), kSmall.filter(), kSmall.y());
  EXPECT_NE(builder.plan(handle_), nullptr);
  EXPECT_GE(builder.refused(), 2);
}

TEST_F(CudnnExecute, TheInstalledLibraryRefusesWhatItHasNoEngineFor) {
  TensorSpec filter = kSmall.filter();
  filter.type = CUDNN_DATA_FLOAT;  // a float32 gradient of half data
  Builder builder;
  builder.convolution(kBackwardFilter, kSmall.spec, kSmall.x(), filter, kSmall.y());
  EXPECT_EQ(builder.plan(handle_), nullptr);
}

TEST_F(CudnnExecute, PlansAndConfigurationsSerialize) {
  Prepared p(handle_, kSmall);
  std::string json(1 << 16, '\0');
  std::int64_t count = 0;
  ASSERT_EQ(cudnnBackendGetAttribute(p.plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                     CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()),
                                     &count, json.data()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_GT(count, 100);
  EXPECT_EQ(json.front(), '{');
}

TEST_F(CudnnExecute, HandlesKeepTheirStream) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudnnGetStream(handle_, &stream), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(stream, stream_);
  EXPECT_EQ(cudnnSetStream(nullptr, stream_), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_GE(cudnnGetVersion(), 90000U);
  EXPECT_STREQ(cudnnGetErrorString(CUDNN_STATUS_BAD_PARAM), "CUDNN_STATUS_BAD_PARAM");
}

TEST(CudnnWithoutLibraryDeathTest, SaysThatTheLibraryIsMissing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("DEMI_EMULATOR_CUDNN", "/nowhere/libcudnn.so.9", 1);
  EXPECT_EXIT(
      {
        cudnnHandle_t handle = nullptr;
        const cudnnStatus_t status = cudnnCreate(&handle);
        std::fprintf(stderr, "%s: %s", cudnnGetErrorString(status), last_error().c_str());
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "CUDNN_STATUS_NOT_INITIALIZED: .*there is none: /nowhere");
  unsetenv("DEMI_EMULATOR_CUDNN");
}

}  // namespace
}  // namespace cuda_emulator::testing
