// What tests/ops does not reach of the CUDA kernels that move elements: words of several elements,
// tiles that are not full, more tiles than a grid has blocks.
#include <demi/ops/movement.h>

#include "tests/kernels/cuda/cuda_kernels.h"

namespace demi {
namespace {

using testing::random_tensor;

class CudaMovement : public testing::CudaKernels {};

TEST_F(CudaMovement, TransposesTilesThatAreNotFull) {
  for (const DType dtype : {uint8, float16, float32, float64}) {
    for (const Shape& shape : {Shape{1, 33, 65}, Shape{5, 35, 3}, Shape{3, 64, 32}}) {
      const Tensor x = random_tensor(shape, dtype, 1, 0, 100);
      EXPECT_EQ(expect_agreement("transpose", ops::TransposeAttributes{{0, 2, 1}}, {&x}), "tiles");
      EXPECT_EQ(expect_agreement("transpose", ops::TransposeAttributes{{2, 1, 0}}, {&x}), "tiles");
      EXPECT_EQ(expect_agreement("transpose", ops::TransposeAttributes{{1, 0, 2}}, {&x}), "words");
    }
  }
}

TEST_F(CudaMovement, TransposesMoreMatricesThanAGridHasBlocks) {
  const Tensor x = random_tensor({66000, 2, 3}, uint8, 1, 0, 100);
  EXPECT_EQ(expect_agreement("transpose", ops::TransposeAttributes{{0, 2, 1}}, {&x}), "tiles");
}

TEST_F(CudaMovement, CopiesBoxesInWordsThatFitTheirPlace) {
  const Tensor x = random_tensor({6, 5, 16}, float16, 1);
  for (const std::int64_t begin : {0, 1, 2, 4, 8}) {
    for (const std::int64_t size : {1, 2, 3, 8}) {
      const ops::SliceAttributes box{{1, 2, begin}, {4, 2, size}, {}};
      expect_agreement("slice", box, {&x});
      const Tensor dy = random_tensor({4, 2, size}, float16, 2);
      expect_agreement("pad_slice", ops::SliceAttributes{box.begin, box.size, x.shape()}, {&dy});
    }
  }
}

TEST_F(CudaMovement, JoinsOddChannelsAndConvertsWhatDiffers) {
  const Tensor a = random_tensor({70, 3}, float16, 1);
  const Tensor b = random_tensor({70, 35}, float16, 2);
  const Tensor wide = random_tensor({70, 8}, float32, 3);
  const Tensor whole = random_tensor({70, 1}, int32, 4, -1000, 1000);
  expect_agreement("concatenate", ops::ConcatenateAttributes{1}, {&a, &b, &a});
  expect_agreement("concatenate", ops::ConcatenateAttributes{1}, {&a, &wide, &whole});
}

}  // namespace
}  // namespace demi
