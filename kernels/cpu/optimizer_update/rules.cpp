// Adam and SGD: one pass over all variables. Everything that happens to a gradient and a variable
// in a step happens while their block is in the cache. Overwritten inputs are the outputs' buffers,
// so variables and slots are read and written there.

#include <cmath>

#include <demi/ops/optimizer_update.h>

#include "kernels/cpu/optimizer_update/register.h"
#include "kernels/cpu/optimizer_update/tensors.h"

namespace demi::cpu {
namespace {

constexpr int kMaxSlots = 3;

/// What a launch computes once.
struct Rates {
  double decay;   ///< learning rate of weight decay
  double update;  ///< learning rate of the rule
};

/// A block of one variable: w, its prepared gradient and its slots.
template <class Acc>
struct Block {
  Acc* w;
  const Acc* g;
  Acc* slots[kMaxSlots];
  std::int64_t count;
};

class AdamRule {
 public:
  explicit AdamRule(const ops::AdamAttributes& attributes) : a_(attributes) {}
  [[nodiscard]] std::size_t slots() const { return a_.amsgrad ? 3 : 2; }
  /// The learning rate corrected for the bias of the moments; `step` counts from 1.
  [[nodiscard]] double rate(double learning_rate, double step) const {
    return learning_rate * std::sqrt(1 - std::pow(a_.beta_2, step)) /
           (1 - std::pow(a_.beta_1, step));
  }

  template <class Acc>
  void operator()(double rate, const Block<Acc>& block) const {
    const auto alpha = static_cast<Acc>(rate);
    const auto gain_1 = static_cast<Acc>(1 - a_.beta_1);
    const auto gain_2 = static_cast<Acc>(1 - a_.beta_2);
    const auto epsilon = static_cast<Acc>(a_.epsilon);
    Acc* __restrict w = block.w;
    const Acc* __restrict g = block.g;
    Acc* __restrict m = block.slots[0];
    Acc* __restrict v = block.slots[1];
    if (!a_.amsgrad) {
      for (std::int64_t i = 0; i < block.count; ++i) {
        m[i] += (g[i] - m[i]) * gain_1;
        v[i] += (g[i] * g[i] - v[i]) * gain_2;
        w[i] -= m[i] * alpha / (std::sqrt(v[i]) + epsilon);
      }
      return;
    }
    Acc* __restrict largest = block.slots[2];
    for (std::int64_t i = 0; i < block.count; ++i) {
      m[i] += (g[i] - m[i]) * gain_1;
      v[i] += (g[i] * g[i] - v[i]) * gain_2;
      largest[i] = largest[i] > v[i] ? largest[i] : v[i];
      w[i] -= m[i] * alpha / (std::sqrt(largest[i]) + epsilon);
    }
  }

 private:
  ops::AdamAttributes a_;
};

class SgdRule {
 public:
  explicit SgdRule(const ops::SgdAttributes& attributes) : a_(attributes) {}
  [[nodiscard]] std::size_t slots() const { return a_.momentum != 0 ? 1 : 0; }
  [[nodiscard]] double rate(double learning_rate, double) const { return learning_rate; }

  template <class Acc>
  void operator()(double rate, const Block<Acc>& block) const {
    const auto alpha = static_cast<Acc>(rate);
    const auto momentum = static_cast<Acc>(a_.momentum);
    Acc* __restrict w = block.w;
    const Acc* __restrict g = block.g;
    Acc* __restrict m = block.slots[0];
    if (momentum == 0) {
      for (std::int64_t i = 0; i < block.count; ++i) w[i] -= g[i] * alpha;
    } else if (a_.nesterov) {
      for (std::int64_t i = 0; i < block.count; ++i) {
        m[i] = m[i] * momentum - g[i] * alpha;
        w[i] += m[i] * momentum - g[i] * alpha;
      }
    } else {
      for (std::int64_t i = 0; i < block.count; ++i) {
        m[i] = m[i] * momentum - g[i] * alpha;
        w[i] += m[i];
      }
    }
  }

 private:
  ops::SgdAttributes a_;
};

template <class Rule>
class UpdateKernel final : public Kernel {
 public:
  UpdateKernel(const KernelRequest& request, const ops::UpdateAttributes& common, Rule rule,
               ThreadPool& pool)
      : Kernel("blocks"),
        rule_(rule),
        common_(common),
        variables_(request.outputs.size() / (1 + rule.slots())),
        first_gradient_(kControls + (common.clipped ? 1 : 0) + variables_),
        one_coefficient_(common.clipped && request.inputs[kControls].shape[0] == 1),
        weights_(elements_of(request.outputs, 0, variables_)),
        gradients_(elements_of(request.inputs, first_gradient_, variables_)),
        chunks_(chunks_of(request.outputs.first(variables_), kUpdateGrain)),
        pool_(pool) {}

  void run(const KernelArguments& arguments) override {
    if (!*arguments.input<bool>(2)) return;
    const double learning_rate = *arguments.input<float>(0);
    const auto step = static_cast<double>(*arguments.input<std::int64_t>(3) + 1);
    const Rates rates{.decay = learning_rate, .update = rule_.rate(learning_rate, step)};
    pool_.parallel_for(static_cast<std::int64_t>(chunks_.size()), [&](std::int64_t i, int) {
      const TensorChunk& chunk = chunks_[static_cast<std::size_t>(i)];
      if (weights_[chunk.tensor].dtype() == DType::kFloat64) {
        update<double>(arguments, rates, chunk);
      } else {
        update<float>(arguments, rates, chunk);
      }
    });
  }

 private:
  static constexpr std::size_t kControls = 4;

  template <class Acc>
  void update(const KernelArguments& arguments, const Rates& rates,
              const TensorChunk& chunk) const {
    const std::size_t tensor = chunk.tensor;
    Acc scale = *arguments.input<float>(1);
    if (common_.clipped) scale *= arguments.input<float>(kControls)[one_coefficient_ ? 0 : tensor];
    const bool decays = common_.decayed.empty() || common_.decayed[tensor];
    const auto decay = static_cast<Acc>(decays ? common_.weight_decay * rates.decay : 0.0);
    alignas(64) Acc gradient[kUpdateBlock];
    alignas(64) Acc weight[kUpdateBlock];
    for_blocks(chunk, [&](std::int64_t first, std::int64_t count) {
      const void* stored = arguments.inputs[first_gradient_ + tensor];
      prepare(gradients_[tensor].load(stored, first, count, gradient), scale, gradient, count);
      void* variable = arguments.outputs[tensor];
      Block<Acc> block{.w = weights_[tensor].load(variable, first, count, weight),
                       .g = gradient,
                       .slots = {},
                       .count = count};
      for (std::size_t slot = 0; slot < rule_.slots(); ++slot) {
        block.slots[slot] = arguments.output<Acc>((1 + slot) * variables_ + tensor) + first;
      }
      if (decay != 0) {
        for (std::int64_t i = 0; i < count; ++i) block.w[i] -= block.w[i] * decay;
      }
      rule_(rates.update, block);
      weights_[tensor].store(block.w, variable, first, count);
    });
  }

  /// Unscales and clips. `to` may be `from`.
  template <class Acc>
  void prepare(const Acc* from, Acc scale, Acc* to, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] * scale;
    if (common_.clip_value == 0) return;
    const auto limit = static_cast<Acc>(common_.clip_value);
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = to[i] > limit ? limit : (to[i] < -limit ? -limit : to[i]);
    }
  }

  Rule rule_;
  ops::UpdateAttributes common_;
  std::size_t variables_;
  std::size_t first_gradient_;
  bool one_coefficient_;
  std::vector<Elements> weights_;
  std::vector<Elements> gradients_;
  std::vector<TensorChunk> chunks_;
  ThreadPool& pool_;
};

template <class Attributes, class Rule>
std::unique_ptr<Kernel> update_factory(const KernelRequest& request, ThreadPool& pool,
                                       std::string& reason) {
  const auto& attributes = request.attributes.as<Attributes>();
  if (!attributes.common.copies.empty() || !attributes.common.transposed_gradients.empty()) {
    reason = "it writes no copies and reads gradients as variables lie";
    return nullptr;
  }
  return std::make_unique<UpdateKernel<Rule>>(request, attributes.common, Rule(attributes), pool);
}

}  // namespace

void register_update_rules(Registry& registry) {
  registry.add("adam_update", "blocks", update_factory<ops::AdamAttributes, AdamRule>);
  registry.add("sgd_update", "blocks", update_factory<ops::SgdAttributes, SgdRule>);
}

}  // namespace demi::cpu
