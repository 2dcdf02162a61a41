// The finite check of a training step and what follows from it.

#include <demi/ops/loss_scale.h>

#include <algorithm>
#include <vector>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/scalars.cuh"
#include "kernels/cuda/registry.h"

namespace demi::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunkBytes = 65536;  // of one tensor, checked by one block at a time

/// Tensors of one launch, cut into chunks that are numbered through.
struct TensorList {
  static constexpr int kCapacity = 183;  // what fits into a kernel's parameters
  const void* data[kCapacity];
  std::int64_t bytes[kCapacity];
  std::int32_t first_chunk[kCapacity];
  std::uint8_t dtype[kCapacity];
  std::int32_t tensors;
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

/// The verdict on the tensors of `list`, and on those before if `follows`, by the last block, which
/// then goes on with `then`.
__global__ void all_finite(TensorList list, bool follows, bool* verdicts, unsigned* counter,
                           bool* result, ScalarProgram then) {
  bool finite = true;
  for (std::int32_t chunk = static_cast<std::int32_t>(blockIdx.x); chunk < list.chunks;
       chunk += static_cast<std::int32_t>(gridDim.x)) {
    int low = 0, high = list.tensors - 1;  // the last tensor that begins at or before the chunk
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (list.first_chunk[middle] <= chunk) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    const std::int64_t begin = (chunk - list.first_chunk[low]) * kChunkBytes;
    const std::int64_t bytes = list.bytes[low];
    finite = range_is_finite(static_cast<const unsigned char*>(list.data[low]),
                             masks_of(static_cast<DType>(list.dtype[low])), begin,
                             begin + kChunkBytes < bytes ? begin + kChunkBytes : bytes) &&
             finite;
  }
  const bool block_is_finite = __syncthreads_and(finite) != 0;
  if (threadIdx.x == 0) verdicts[blockIdx.x] = block_is_finite;
  if (!is_last_block(counter)) return;
  bool all = !follows || *result;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) all = verdicts[i] && all;
  all = __syncthreads_and(all) != 0;
  if (threadIdx.x == 0) *result = all;
  __syncthreads();
  run_program(then);
}

/// A launch without addresses, and which input is its first tensor.
struct PlannedList {
  TensorList list;
  std::vector<std::size_t> inputs;
  unsigned blocks;
};

std::vector<PlannedList> plan_lists(std::span<const TensorType> inputs, unsigned most_blocks) {
  std::vector<PlannedList> lists;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto bytes = static_cast<std::int64_t>(inputs[i].bytes());
    const std::int64_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
    if (chunks == 0 && !lists.empty()) continue;
    if (lists.empty() || lists.back().list.tensors == TensorList::kCapacity ||
        lists.back().list.chunks + chunks > INT32_MAX / 2) {
      lists.push_back({});
    }
    TensorList& list = lists.back().list;
    list.bytes[list.tensors] = bytes;
    list.first_chunk[list.tensors] = list.chunks;
    list.dtype[list.tensors] = static_cast<std::uint8_t>(inputs[i].dtype);
    list.chunks += static_cast<std::int32_t>(chunks);
    ++list.tensors;
    lists.back().inputs.push_back(i);
  }
  for (PlannedList& planned : lists) {
    planned.blocks = std::clamp(static_cast<unsigned>(planned.list.chunks), 1u, most_blocks);
  }
  return lists;
}

class AllFinite final : public CarryingKernel {
 public:
  AllFinite(std::vector<PlannedList> lists, unsigned most_blocks, Context& context)
      : CarryingKernel("tensor_lists", most_blocks, static_cast<int>(lists.size())),
        lists_(std::move(lists)),
        counter_(context.block_counter()),
        context_(context) {}

  void run_then(const KernelArguments& a, const ScalarProgram& then) override {
    for (std::size_t k = 0; k < lists_.size(); ++k) {
      const PlannedList& planned = lists_[k];
      TensorList list = planned.list;
      for (std::size_t i = 0; i < planned.inputs.size(); ++i) {
        list.data[i] = a.inputs[planned.inputs[i]];
      }
      launch(&all_finite, planned.blocks, kThreads, 0, context_.stream(), list, k > 0,
             static_cast<bool*>(a.workspace), counter_, a.output<bool>(0),
             k + 1 == lists_.size() ? then : ScalarProgram());
    }
  }

 private:
  std::vector<PlannedList> lists_;
  unsigned* counter_;
  Context& context_;
};

std::unique_ptr<Kernel> make_all_finite(const KernelRequest& request, Context& context,
                                        std::string&) {
  const unsigned most_blocks = 8 * static_cast<unsigned>(context.properties().multiprocessors);
  return std::make_unique<AllFinite>(plan_lists(request.inputs, most_blocks), most_blocks, context);
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
