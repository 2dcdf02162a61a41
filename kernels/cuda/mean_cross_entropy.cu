// A warp works on a row of logits; the last block adds up what the blocks have summed.

#include "kernels/cuda/mean_cross_entropy.h"

#include <algorithm>

#include <demi/ops/cross_entropy.h>

#include "kernels/cuda/reduction/place.cuh"
#include "kernels/cuda/rows.cuh"

namespace demi::cuda {
namespace {

using ops::MeanSparseCrossEntropyAttributes;
using Accuracy = MeanSparseCrossEntropyAttributes::Accuracy;

/// Without padding; flags and enumerations take a word.
struct Job {
  AnyInput scores, labels;
  AnyOutput gradient;  ///< null: none
  const float* dmean;
  double divisor;
  std::int64_t rows, classes;
  Accuracy accuracy;
  float* mean;
  float* share;      ///< the accuracy
  double* partials;  ///< [2, blocks]: sums of losses, correct rows
  unsigned* counter;
};

/// Whether the largest of a row's scores, or of their softmax as the op softmax rounds it, is that
/// of `label`.
template <class Score>
__device__ bool is_correct(const Job& job, int lane, std::int64_t label, Score score, float shift,
                           float sum) {
  const float scale = sum == 0 ? 0.0F : 1 / sum;
  Place<float> best = {0.0F, -1};
  for (std::int64_t i = lane; i < job.classes; i += 32) {
    const float value =
        job.accuracy == Accuracy::kOfSoftmax ? exp(score(i) - shift) * scale : score(i);
    best = First{}(best, {value, static_cast<std::int32_t>(i)});
  }
  return reduce_lanes(best, 32, First{}).index == label;
}

__global__ void mean_cross_entropy(Job job) {
  double losses = 0;
  double correct = 0;
  const float dloss =
      job.gradient.data == nullptr ? 0.0F : *job.dmean / static_cast<float>(job.divisor);
  for_rows_of_warp(job.rows, [&](std::int64_t row, int lane) {
    const std::int64_t first = row * job.classes;
    const auto score = [&](std::int64_t i) { return job.scores.get<float>(first + i); };
    const auto label = job.labels.get<std::int64_t>(row);
    const bool known = label >= 0 && label < job.classes;
    const float shift = max_row<float>(job.classes, lane, score);
    const float sum =
        sum_row<float>(job.classes, lane, [&](std::int64_t i) { return exp(score(i) - shift); });
    if (lane == 0) losses += known ? log(sum) - (score(label) - shift) : kNaN<float>;
    if (job.accuracy != Accuracy::kNone) {
      const bool right = is_correct(job, lane, label, score, shift, sum);
      if (lane == 0) correct += right ? 1 : 0;
    }
    if (job.gradient.data == nullptr) return;
    const float scale = dloss / sum;
    for (std::int64_t i = lane; i < job.classes; i += 32) {
      const float value = exp(score(i) - shift) * scale - (i == label ? dloss : 0.0F);
      job.gradient.set(first + i, known ? value : kNaN<float>);
    }
  });
  losses = reduce_block(losses, Sum());
  correct = reduce_block(correct, Sum());
  if (threadIdx.x == 0) {
    job.partials[blockIdx.x] = losses;
    job.partials[gridDim.x + blockIdx.x] = correct;
  }
  if (!is_last_block(job.counter)) return;
  losses = correct = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
    losses += job.partials[i];
    correct += job.partials[gridDim.x + i];
  }
  losses = reduce_block(losses, Sum());
  correct = reduce_block(correct, Sum());
  if (threadIdx.x != 0) return;
  // A mean of nothing is 0, as everywhere.
  const double count = job.rows == 0 ? 1 : static_cast<double>(job.rows);
  *job.mean = static_cast<float>(losses / count);
  if (job.accuracy != Accuracy::kNone) *job.share = static_cast<float>(correct / count);
}

}  // namespace

std::unique_ptr<Kernel> make_mean_sparse_cross_entropy(const KernelRequest& request,
                                                       Context& context, std::string&) {
  const auto attributes = request.attributes.as<MeanSparseCrossEntropyAttributes>();
  const TensorType& scores = request.inputs[0];
  Job job = {};
  job.rows = scores.shape[0];
  job.classes = scores.shape[1];
  job.divisor = attributes.divisor;
  job.accuracy = attributes.accuracy;
  job.counter = context.block_counter();
  const unsigned blocks = std::max(row_blocks(job.rows, context), 1U);
  const auto body = [job, blocks, attributes, scores = scores.dtype,
                     labels = request.inputs[1].dtype, &context](const KernelArguments& a) {
    Job bound = job;
    bound.scores = {a.inputs[0], scores};
    bound.labels = {a.inputs[1], labels};
    bound.mean = a.output<float>(0);
    std::size_t output = 1;
    if (attributes.accuracy != Accuracy::kNone) bound.share = a.output<float>(output++);
    if (attributes.has_gradient) {
      bound.dmean = a.input<float>(2);
      bound.gradient = {a.outputs[output], attributes.gradient_dtype};
    }
    bound.partials = static_cast<double*>(a.workspace);
    launch(&mean_cross_entropy, blocks, kElementwiseThreads, 0, context.stream(), bound);
  };
  return make_kernel("warp per row", 2 * blocks * sizeof(double), body);
}

}  // namespace demi::cuda
