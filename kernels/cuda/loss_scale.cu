// The finite check of a training step and what follows from it.

#include <demi/ops/loss_scale.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/cuda/address_lists.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/scalars.cuh"

namespace demi::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunkBytes = 65536;  // of one tensor, checked by one block at a time

/// A tensor, cut into chunks that are numbered through. Without padding.
struct CheckedTensor {
  const void* data;
  std::int64_t bytes;
  std::int32_t first_chunk;
  std::int32_t dtype;
};

/// What the kernel gets of them.
struct TensorList {
  const CheckedTensor* tensors;
  std::int32_t count;
  std::int32_t chunks;
};

/// Where the exponent is in 32 bits of a tensor, if all of it being set means NaN or infinity: in
/// the bits of the first 16, of the second 16 (or of all 32), of the even and of the odd words.
struct ExponentMasks {
  unsigned even[2];
  unsigned odd[2];
};

__device__ ExponentMasks masks_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {{0x7c00u, 0x7c000000u}, {0x7c00u, 0x7c000000u}};
    case DType::kBFloat16:
      return {{0x7f80u, 0x7f800000u}, {0x7f80u, 0x7f800000u}};
    case DType::kFloat64:  // only the high half of a number has an exponent
      return {{0, 0}, {0x7ff00000u, 0x7ff00000u}};
    default:
      return {{0x7f800000u, 0x7f800000u}, {0x7f800000u, 0x7f800000u}};
  }
}

__device__ bool word_is_finite(unsigned word, const unsigned (&mask)[2]) {
  return mask[0] == 0 || ((word & mask[0]) != mask[0] && (word & mask[1]) != mask[1]);
}

/// Bytes [begin, end) of a tensor, `begin` a multiple of 16, by the threads of a block.
__device__ bool range_is_finite(const unsigned char* data, const ExponentMasks& masks,
                                std::int64_t begin, std::int64_t end) {
  bool finite = true;
  const std::int64_t packets_end = end / 16;
  for (std::int64_t i = begin / 16 + threadIdx.x; i < packets_end; i += blockDim.x) {
    const uint4 words = reinterpret_cast<const uint4*>(data)[i];
    finite = finite && word_is_finite(words.x, masks.even) && word_is_finite(words.y, masks.odd) &&
             word_is_finite(words.z, masks.even) && word_is_finite(words.w, masks.odd);
  }
  // Less than a packet: by 16 bits, whose neighbours are taken as 0.
  const std::int64_t at = 16 * packets_end + 2 * static_cast<std::int64_t>(threadIdx.x);
  if (at < end) {
    const auto* words = reinterpret_cast<const unsigned*>(data);
    const unsigned short half = reinterpret_cast<const unsigned short*>(data)[at / 2];
    const bool whole = at / 4 * 4 + 4 <= end;
    const unsigned word = whole ? words[at / 4] : half;
    finite = finite && word_is_finite(word, at / 4 % 2 == 0 ? masks.even : masks.odd);
  }
  return finite;
}

/// The verdict on the tensors of `list` by the last block, which then goes on with `then`.
__global__ void all_finite(TensorList list, bool* verdicts, unsigned* counter, bool* result,
                           ScalarProgram then) {
  bool finite = true;
  for (std::int32_t chunk = static_cast<std::int32_t>(blockIdx.x); chunk < list.chunks;
       chunk += static_cast<std::int32_t>(gridDim.x)) {
    int low = 0, high = list.count - 1;  // the last tensor that begins at or before the chunk
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (list.tensors[middle].first_chunk <= chunk) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    const CheckedTensor& tensor = list.tensors[low];
    const std::int64_t begin = (chunk - tensor.first_chunk) * kChunkBytes;
    const std::int64_t end =
        begin + kChunkBytes < tensor.bytes ? begin + kChunkBytes : tensor.bytes;
    finite = range_is_finite(static_cast<const unsigned char*>(tensor.data),
                             masks_of(static_cast<DType>(tensor.dtype)), begin, end) &&
             finite;
  }
  const bool block_is_finite = __syncthreads_and(finite) != 0;
  if (threadIdx.x == 0) verdicts[blockIdx.x] = block_is_finite;
  if (!is_last_block(counter)) return;
  bool all = true;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) all = verdicts[i] && all;
  all = __syncthreads_and(all) != 0;
  if (threadIdx.x == 0) *result = all;
  run_program(then);
}

class AllFinite final : public CarryingKernel {
 public:
  AllFinite(std::span<const TensorType> inputs, unsigned most_blocks, Context& context)
      : CarryingKernel("tensor_lists", most_blocks),
        lists_(inputs.size() * sizeof(CheckedTensor), context),
        counter_(context.block_counter()),
        context_(context) {
    for (const TensorType& input : inputs) {
      const auto bytes = static_cast<std::int64_t>(input.bytes());
      tensors_.push_back({nullptr, bytes, chunks_, static_cast<std::int32_t>(input.dtype)});
      chunks_ += static_cast<std::int32_t>((bytes + kChunkBytes - 1) / kChunkBytes);
    }
    blocks_ = std::clamp(static_cast<unsigned>(chunks_), 1u, most_blocks);
  }

  void run_then(const KernelArguments& a, const ScalarProgram& then) override {
    std::vector<CheckedTensor> tensors = tensors_;
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].data = a.inputs[i];
    std::vector<std::byte> bytes(tensors.size() * sizeof(CheckedTensor));
    std::memcpy(bytes.data(), tensors.data(), bytes.size());
    const TensorList list = {static_cast<const CheckedTensor*>(lists_.store(bytes)),
                             static_cast<std::int32_t>(tensors.size()), chunks_};
    launch(&all_finite, blocks_, kThreads, 0, context_.stream(), list,
           static_cast<bool*>(a.workspace), counter_, a.output<bool>(0), then);
  }

 private:
  std::vector<CheckedTensor> tensors_;  ///< without addresses
  std::int32_t chunks_ = 0;
  unsigned blocks_ = 1;
  AddressLists lists_;
  unsigned* counter_;
  Context& context_;
};

std::unique_ptr<Kernel> make_all_finite(const KernelRequest& request, Context& context,
                                        std::string&) {
  const unsigned most_blocks = 8 * static_cast<unsigned>(context.properties().multiprocessors);
  return std::make_unique<AllFinite>(request.inputs, std::max(most_blocks, 1u), context);
}

std::unique_ptr<Kernel> make_loss_scale_update(const KernelRequest& request, Context& context,
                                               std::string&) {
  const auto attributes = request.attributes.as<ops::LossScaleAttributes>();
  const auto describe = [attributes](const KernelArguments& a) {
    return ScalarInstruction{.inputs = {a.inputs[4]},
                             .outputs = {a.outputs[0], a.outputs[1], a.outputs[2], a.outputs[3]},
                             .integers = {attributes.growth_steps, attributes.dynamic ? 1 : 0}};
  };
  return std::make_unique<ScalarKernel>("scalar", ScalarOp::kLossScaleUpdate, describe, context);
}

}  // namespace

void register_loss_scale_kernels(Registry& registry) {
  registry.add("all_finite", "tensor_lists", make_all_finite);
  registry.add("loss_scale_update", "scalar", make_loss_scale_update);
}

}  // namespace demi::cuda
