// Adam and SGD. Overwritten inputs are the outputs' buffers, so variables and slots are read and
// written there.

#include <cmath>

#include <demi/ops/optimizer_update.h>

#include "kernels/cuda/optimizer_update/register.h"
#include "kernels/cuda/optimizer_update/tensors.cuh"
#include "kernels/cuda/scalars.cuh"

namespace demi::cuda::optimizer_update {
namespace {

/// Inputs before the tensors, without the clip coefficients.
constexpr std::size_t kControls = 4;

/// The control scalars of an update and what its attributes say for all tensors.
struct Controls {
  const float* learning_rate;
  const float* inverse_scale;
  const bool* apply;
  const std::int64_t* iterations;
  const float* clip;  ///< null: none
  bool one_coefficient;
  double clip_value;
  double weight_decay;
};

template <bool kAmsgrad>
struct AdamRule {
  static constexpr int kSlots = kAmsgrad ? 3 : 2;

  double beta_1, beta_2, epsilon;

  explicit AdamRule(const ops::AdamAttributes& a)
      : beta_1(a.beta_1), beta_2(a.beta_2), epsilon(a.epsilon) {}
  /// The learning rate corrected for the bias of the moments; `step` counts from 1.
  [[nodiscard]] __device__ double rate(double learning_rate, double step) const {
    return learning_rate * std::sqrt(1 - std::pow(beta_2, step)) / (1 - std::pow(beta_1, step));
  }
  template <class C>
  __device__ void operator()(C rate, C g, C& w, C (&slots)[kSlots]) const {
    slots[0] += (g - slots[0]) * static_cast<C>(1 - beta_1);
    slots[1] += (g * g - slots[1]) * static_cast<C>(1 - beta_2);
    C spread = slots[1];
    if constexpr (kAmsgrad) {
      slots[2] = slots[2] > spread ? slots[2] : spread;
      spread = slots[2];
    }
    w -= slots[0] * rate / (std::sqrt(spread) + static_cast<C>(epsilon));
  }
};

template <bool kHasMomentum>
struct SgdRule {
  static constexpr int kSlots = kHasMomentum ? 1 : 0;

  double momentum;
  bool nesterov;

  explicit SgdRule(const ops::SgdAttributes& a) : momentum(a.momentum), nesterov(a.nesterov) {}
  [[nodiscard]] __device__ double rate(double learning_rate, double) const { return learning_rate; }
  template <class C>
  __device__ void operator()(C rate, C g, C& w, C (&slots)[1]) const {
    if constexpr (kHasMomentum) {
      const auto keep = static_cast<C>(momentum);
      slots[0] = slots[0] * keep - g * rate;
      w += nesterov ? slots[0] * keep - g * rate : slots[0];
    } else {
      w -= g * rate;
    }
  }
};

/// Lists of a table: variables, gradients, then the slots.
template <class Rule>
inline constexpr int kListsOf = 2 + Rule::kSlots;

template <class C, class Rule>
__device__ void update_tensors(const Table<kListsOf<Rule>>& table, const Controls& controls,
                               const Rule& rule) {
  DEMI_SHARED(double, rates, [1]);
  const double learning_rate = *controls.learning_rate;
  if (threadIdx.x == 0) {
    // Two powers in float64: once for a block.
    rates[0] = rule.rate(learning_rate, static_cast<double>(*controls.iterations + 1));
  }
  __syncthreads();
  const auto rate = static_cast<C>(rates[0]);
  const auto limit = static_cast<C>(controls.clip_value);
  for_packets(table, [&](int entry, std::int64_t first, int count) {
    C scale = *controls.inverse_scale;
    if (controls.clip != nullptr) {
      scale *= controls.clip[controls.one_coefficient ? 0 : table.tensor[entry]];
    }
    const auto decay =
        static_cast<C>(table.flag[entry] ? controls.weight_decay * learning_rate : 0.0);
    C w[kLength], g[kLength], slots[Rule::kSlots + 1][kLength];
    load_some(table.address[0][entry], table.dtype[0][entry], first, count, w);
    load_some(table.address[1][entry], table.dtype[1][entry], first, count, g);
    DEMI_UNROLL
    for (int s = 0; s < Rule::kSlots; ++s)
      load_as<C>(table.address[2 + s][entry], first, count, slots[s]);
    DEMI_UNROLL
    for (int i = 0; i < kLength; ++i) {
      if (i >= count) break;
      C gradient = g[i] * scale;
      if (limit != 0) gradient = gradient > limit ? limit : (gradient < -limit ? -limit : gradient);
      if (decay != 0) w[i] -= w[i] * decay;
      C own[Rule::kSlots > 0 ? Rule::kSlots : 1];
      DEMI_UNROLL
      for (int s = 0; s < Rule::kSlots; ++s) own[s] = slots[s][i];
      rule(rate, gradient, w[i], own);
      DEMI_UNROLL
      for (int s = 0; s < Rule::kSlots; ++s) slots[s][i] = own[s];
    }
    store_some(w, table.address[0][entry], table.dtype[0][entry], first, count);
    DEMI_UNROLL
    for (int s = 0; s < Rule::kSlots; ++s)
      store_as<C>(slots[s], table.address[2 + s][entry], first, count);
  });
}

template <class C, class Rule>
__global__ void update(Table<kListsOf<Rule>> table, Controls controls, Rule rule,
                       ScalarProgram then, unsigned* counter) {
  if (*controls.apply) update_tensors<C>(table, controls, rule);
  carry_out(then, counter);
}

template <class Rule>
class UpdateKernel final : public CarryingKernel {
 public:
  UpdateKernel(const KernelRequest& request, const ops::UpdateAttributes& common, Rule rule,
               Context& context)
      : UpdateKernel(tables_of(request, common), request, common, rule, context) {}

  void run_then(const KernelArguments& arguments, const ScalarProgram& then) override {
    const Controls controls{.learning_rate = arguments.input<float>(0),
                            .inverse_scale = arguments.input<float>(1),
                            .apply = arguments.input<bool>(2),
                            .iterations = arguments.input<std::int64_t>(3),
                            .clip = common_.clipped ? arguments.input<float>(kControls) : nullptr,
                            .one_coefficient = one_coefficient_,
                            .clip_value = common_.clip_value,
                            .weight_decay = common_.weight_decay};
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const ScalarProgram program = i + 1 == tables_.size() ? then : ScalarProgram();
      if (tables_[i].dtype[0][0] == DType::kFloat64) {
        start<double>(tables_[i], controls, arguments, program);
      } else {
        start<float>(tables_[i], controls, arguments, program);
      }
    }
  }

 private:
  static constexpr int kLists = kListsOf<Rule>;
  using Tables = std::vector<Table<kLists>>;

  UpdateKernel(Tables all, const KernelRequest& request, const ops::UpdateAttributes& common,
               Rule rule, Context& context)
      : CarryingKernel("tables", 0, static_cast<int>(all.size())),
        rule_(rule),
        common_(common),
        variables_(variables_of(request)),
        first_gradient_(first_gradient_of(request, common)),
        one_coefficient_(common.clipped && request.inputs[kControls].shape[0] == 1),
        counter_(context.block_counter()),
        context_(context),
        tables_(std::move(all)) {}

  static std::size_t variables_of(const KernelRequest& request) {
    return request.outputs.size() / (1 + Rule::kSlots);
  }
  static std::size_t first_gradient_of(const KernelRequest& request,
                                       const ops::UpdateAttributes& common) {
    return kControls + (common.clipped ? 1 : 0) + variables_of(request);
  }

  /// Of tensors that are computed in float, then of those in double.
  static Tables tables_of(const KernelRequest& request, const ops::UpdateAttributes& common) {
    const std::size_t first_gradient = first_gradient_of(request, common);
    std::vector<Entry<kLists>> entries;
    for (std::size_t i = 0; i < variables_of(request); ++i) {
      const TensorType& variable = request.outputs[i];
      Entry<kLists> entry{.elements = variable.shape.elements(),
                          .dtype = {variable.dtype, request.inputs[first_gradient + i].dtype},
                          .flag = common.decayed.empty() || common.decayed[i]};
      for (int slot = 0; slot < Rule::kSlots; ++slot) {
        entry.dtype[2 + slot] = accumulation_dtype(variable.dtype);
      }
      entries.push_back(entry);
    }
    const auto is_double = [](const auto& entry) { return entry.dtype[0] == DType::kFloat64; };
    const auto is_single = [](const auto& entry) { return entry.dtype[0] != DType::kFloat64; };
    Tables all = tables(entries, is_single);
    for (auto& table : tables(entries, is_double)) all.push_back(table);
    return all;
  }

  template <class C>
  void start(const Table<kLists>& table, const Controls& controls,
             const KernelArguments& arguments, const ScalarProgram& then) const {
    const auto filled = with_addresses(table, [&](int list, std::size_t tensor) {
      if (list == 1) return const_cast<void*>(arguments.inputs[first_gradient_ + tensor]);
      const std::size_t group = list == 0 ? 0 : static_cast<std::size_t>(list) - 1;
      return arguments.outputs[group * variables_ + tensor];
    });
    // One block at least: what follows is not to be left out where all tensors are empty.
    launch(&update<C, Rule>, std::max(blocks_for_chunks(table, context_), 1U), kThreads, 0,
           context_.stream(), filled, controls, rule_, then, counter_);
  }

  Rule rule_;
  ops::UpdateAttributes common_;
  std::size_t variables_;
  std::size_t first_gradient_;
  bool one_coefficient_;
  unsigned* counter_;
  Context& context_;
  Tables tables_;
};

std::unique_ptr<Kernel> make_adam(const KernelRequest& request, Context& context, std::string&) {
  const auto& a = request.attributes.as<ops::AdamAttributes>();
  if (a.amsgrad) {
    return std::make_unique<UpdateKernel<AdamRule<true>>>(request, a.common, AdamRule<true>(a),
                                                          context);
  }
  return std::make_unique<UpdateKernel<AdamRule<false>>>(request, a.common, AdamRule<false>(a),
                                                         context);
}

std::unique_ptr<Kernel> make_sgd(const KernelRequest& request, Context& context, std::string&) {
  const auto& a = request.attributes.as<ops::SgdAttributes>();
  if (a.momentum != 0) {
    return std::make_unique<UpdateKernel<SgdRule<true>>>(request, a.common, SgdRule<true>(a),
                                                         context);
  }
  return std::make_unique<UpdateKernel<SgdRule<false>>>(request, a.common, SgdRule<false>(a),
                                                        context);
}

}  // namespace

void register_rules(Registry& registry) {
  registry.add("adam_update", "tables", make_adam);
  registry.add("sgd_update", "tables", make_sgd);
}

}  // namespace demi::cuda::optimizer_update
