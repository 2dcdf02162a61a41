// What surrounds an update rule: clipping by norm, gradient accumulation, averages of the weights.

#include <demi/ops/optimizer_update.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/optimizer_update/register.h"
#include "kernels/cpu/optimizer_update/tensors.h"
#include "kernels/cpu/rows.h"

namespace demi::cpu {
namespace {

std::int64_t count_of(const std::vector<TensorChunk>& chunks) {
  return static_cast<std::int64_t>(chunks.size());
}

// ---- clip_coefficients(inverse_scale, g…)
// --------------------------------------------------------

class ClipKernel final : public Kernel {
 public:
  ClipKernel(const KernelRequest& request, std::vector<TensorChunk> chunks, ThreadPool& pool)
      : Kernel("norms", chunks.size() * sizeof(double)),
        attributes_(request.attributes.as<ops::ClipAttributes>()),
        gradients_(elements_of(request.inputs, 1, request.inputs.size() - 1)),
        chunks_(std::move(chunks)),
        pool_(pool) {}

  void run(const KernelArguments& arguments) override {
    auto* partial = static_cast<double*>(arguments.workspace);
    pool_.parallel_for(count_of(chunks_), [&](std::int64_t i, int) {
      const TensorChunk& chunk = chunks_[static_cast<std::size_t>(i)];
      partial[i] = sum_of_squares(arguments.inputs[1 + chunk.tensor], chunk);
    });
    const double inverse_scale = *arguments.input<float>(0);
    float* coefficients = arguments.output<float>(0);
    double sum = 0;
    std::size_t next = 0;
    for (std::size_t tensor = 0; tensor < gradients_.size(); ++tensor) {
      while (next < chunks_.size() && chunks_[next].tensor == tensor) sum += partial[next++];
      if (attributes_.global) continue;
      coefficients[tensor] = coefficient(std::sqrt(sum) * inverse_scale);
      sum = 0;
    }
    if (attributes_.global) coefficients[0] = coefficient(std::sqrt(sum) * inverse_scale);
  }

 private:
  [[nodiscard]] double sum_of_squares(const void* gradient, const TensorChunk& chunk) const {
    const Elements& elements = gradients_[chunk.tensor];
    return elements.dtype() == DType::kFloat64 ? sum_of_squares<double>(gradient, chunk)
                                               : sum_of_squares<float>(gradient, chunk);
  }

  template <class Acc>
  [[nodiscard]] double sum_of_squares(const void* gradient, const TensorChunk& chunk) const {
    alignas(64) Acc buffer[kUpdateBlock];
    double sum = 0;
    for_blocks(chunk, [&](std::int64_t first, std::int64_t count) {
      const Acc* g = gradients_[chunk.tensor].load(gradient, first, count, buffer);
      sum += sum_row<double>(count, [g](std::int64_t i) {
        const double value = g[i];
        return value * value;
      });
    });
    return sum;
  }

  [[nodiscard]] float coefficient(double norm) const {
    if (!std::isfinite(norm)) return std::numeric_limits<float>::quiet_NaN();
    return norm > attributes_.norm ? static_cast<float>(attributes_.norm / norm) : 1.0f;
  }

  ops::ClipAttributes attributes_;
  std::vector<Elements> gradients_;
  std::vector<TensorChunk> chunks_;
  ThreadPool& pool_;
};

std::unique_ptr<Kernel> clip_factory(const KernelRequest& request, ThreadPool& pool, std::string&) {
  return std::make_unique<ClipKernel>(request, chunks_of(request.inputs.subspan(1), kUpdateGrain),
                                      pool);
}

// ---- accumulate_gradients(inverse_scale, apply, position, a…, g…)
// --------------------------------

class AccumulateKernel final : public Kernel {
 public:
  AccumulateKernel(const KernelRequest& request, ThreadPool& pool)
      : Kernel("blocks"),
        accumulators_(elements_of(request.outputs, 0, request.outputs.size())),
        gradients_(elements_of(request.inputs, 3 + accumulators_.size(), accumulators_.size())),
        chunks_(chunks_of(request.outputs, kUpdateGrain)),
        pool_(pool) {}

  void run(const KernelArguments& arguments) override {
    if (!*arguments.input<bool>(1)) return;
    pool_.parallel_for(count_of(chunks_), [&](std::int64_t i, int) {
      const TensorChunk& chunk = chunks_[static_cast<std::size_t>(i)];
      if (accumulators_[chunk.tensor].dtype() == DType::kFloat64) {
        accumulate<double>(arguments, chunk);
      } else {
        accumulate<float>(arguments, chunk);
      }
    });
  }

 private:
  template <class Acc>
  void accumulate(const KernelArguments& arguments, const TensorChunk& chunk) const {
    const std::size_t tensor = chunk.tensor;
    const Acc scale = *arguments.input<float>(0);
    const bool begins = *arguments.input<std::int64_t>(2) == 0;
    const void* gradient = arguments.inputs[3 + accumulators_.size() + tensor];
    alignas(64) Acc gradient_buffer[kUpdateBlock];
    alignas(64) Acc buffer[kUpdateBlock];
    for_blocks(chunk, [&](std::int64_t first, std::int64_t count) {
      const Acc* g = gradients_[tensor].load(gradient, first, count, gradient_buffer);
      Acc* a = accumulators_[tensor].load(arguments.outputs[tensor], first, count, buffer);
      if (begins) {
        for (std::int64_t i = 0; i < count; ++i) a[i] = g[i] * scale;
      } else {
        for (std::int64_t i = 0; i < count; ++i) a[i] += g[i] * scale;
      }
      accumulators_[tensor].store(a, arguments.outputs[tensor], first, count);
    });
  }

  std::vector<Elements> accumulators_;
  std::vector<Elements> gradients_;
  std::vector<TensorChunk> chunks_;
  ThreadPool& pool_;
};

// ---- ema_update(apply, iterations, w…, average…)
// -------------------------------------------------

class EmaKernel final : public Kernel {
 public:
  EmaKernel(const KernelRequest& request, ThreadPool& pool)
      : Kernel("blocks"),
        attributes_(request.attributes.as<ops::EmaAttributes>()),
        variables_((request.inputs.size() - 2) / 2),
        weights_(elements_of(request.inputs, 2, variables_)),
        averages_(elements_of(request.outputs, 0, variables_)),
        chunks_(chunks_of(request.outputs.first(variables_), kUpdateGrain)),
        pool_(pool) {}

  void run(const KernelArguments& arguments) override {
    if (!*arguments.input<bool>(0)) return;
    const std::int64_t iterations = *arguments.input<std::int64_t>(1);
    const double momentum = iterations == 0 ? 0.0 : attributes_.momentum;
    const std::int64_t frequency = attributes_.overwrite_frequency;
    const bool overwrites = frequency > 0 && (iterations + 1) % frequency == 0;
    pool_.parallel_for(count_of(chunks_), [&](std::int64_t i, int) {
      const TensorChunk& chunk = chunks_[static_cast<std::size_t>(i)];
      if (averages_[chunk.tensor].dtype() == DType::kFloat64) {
        average<double>(arguments, chunk, momentum, overwrites);
      } else {
        average<float>(arguments, chunk, momentum, overwrites);
      }
    });
  }

 private:
  template <class Acc>
  void average(const KernelArguments& arguments, const TensorChunk& chunk, double momentum,
               bool overwrites) const {
    const std::size_t tensor = chunk.tensor;
    const auto keep = static_cast<Acc>(momentum);
    const auto add = static_cast<Acc>(1 - momentum);
    const void* weight = arguments.inputs[2 + tensor];
    alignas(64) Acc buffer[kUpdateBlock];
    for_blocks(chunk, [&](std::int64_t first, std::int64_t count) {
      const Acc* w = weights_[tensor].load(weight, first, count, buffer);
      Acc* e = arguments.output<Acc>(tensor) + first;
      // What an average holds before the first update does not matter, not even a NaN.
      if (keep == 0) {
        std::copy_n(w, count, e);
      } else {
        for (std::int64_t i = 0; i < count; ++i) e[i] = e[i] * keep + w[i] * add;
      }
      if (overwrites)
        weights_[tensor].write(e, arguments.outputs[variables_ + tensor], first, count);
    });
  }

  ops::EmaAttributes attributes_;
  std::size_t variables_;
  std::vector<Elements> weights_;
  std::vector<Elements> averages_;
  std::vector<TensorChunk> chunks_;
  ThreadPool& pool_;
};

template <class K>
std::unique_ptr<Kernel> factory_of(const KernelRequest& request, ThreadPool& pool, std::string&) {
  return std::make_unique<K>(request, pool);
}

}  // namespace

void register_optimizer_update_kernels(Registry& registry) {
  register_update_rules(registry);
  registry.add("clip_coefficients", "norms", clip_factory);
  registry.add("accumulate_gradients", "blocks", factory_of<AccumulateKernel>);
  registry.add("ema_update", "blocks", factory_of<EmaKernel>);
}

}  // namespace demi::cpu
