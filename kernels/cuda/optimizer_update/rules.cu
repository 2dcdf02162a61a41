// Adam and SGD. Overwritten inputs are the outputs' buffers, so variables and slots are read and
// written there.

#include <algorithm>
#include <cmath>

#include <demi/ops/optimizer_update.h>

#include "kernels/cuda/any_element.cuh"
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

/// Lists of a table: variables, gradients, the slots, then copies of variables (null: none).
template <class Rule>
inline constexpr int kListsOf = 3 + Rule::kSlots;

enum Flag : std::uint8_t { kDecays = 1, kGradientIsTransposed = 2, kCopyIsTransposed = 4 };

/// Elements of the gradient of an entry.
template <class C, int kLists>
__device__ void load_gradient(const Entry<kLists>& entry, std::int64_t first, int count,
                              C (&g)[kLength]) {
  if ((entry.flags & kGradientIsTransposed) == 0) {
    return load_some(entry.address[1], entry.dtype[1], first, count, g);
  }
  const std::int64_t rows = entry.elements / entry.columns;
  for (int i = 0; i < count; ++i) {
    g[i] = AnyInput(entry.address[1], entry.dtype[1])
               .get<C>(transposed_place(first + i, rows, entry.columns));
  }
}

template <class C, int kLists>
__device__ void store_copy(const C (&w)[kLength], const Entry<kLists>& entry, std::int64_t first,
                           int count) {
  void* to = entry.address[kLists - 1];
  const DType dtype = entry.dtype[kLists - 1];
  if (to == nullptr) return;
  if ((entry.flags & kCopyIsTransposed) == 0) return store_some(w, to, dtype, first, count);
  const std::int64_t rows = entry.elements / entry.columns;
  for (int i = 0; i < count; ++i) {
    AnyOutput(to, dtype).set(transposed_place(first + i, rows, entry.columns), w[i]);
  }
}

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
  for_packets(table, [&](const Entry<kListsOf<Rule>>& entry, std::int64_t first, int count) {
    C scale = *controls.inverse_scale;
    if (controls.clip != nullptr) {
      scale *= controls.clip[controls.one_coefficient ? 0 : entry.tensor];
    }
    const auto decay =
        static_cast<C>((entry.flags & kDecays) != 0 ? controls.weight_decay * learning_rate : 0.0);
    C w[kLength], g[kLength], slots[Rule::kSlots + 1][kLength];
    load_some(entry.address[0], entry.dtype[0], first, count, w);
    load_gradient(entry, first, count, g);
    DEMI_UNROLL
    for (int s = 0; s < Rule::kSlots; ++s) load_as<C>(entry.address[2 + s], first, count, slots[s]);
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
    store_some(w, entry.address[0], entry.dtype[0], first, count);
    store_copy(w, entry, first, count);
    DEMI_UNROLL
    for (int s = 0; s < Rule::kSlots; ++s)
      store_as<C>(slots[s], entry.address[2 + s], first, count);
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
      : UpdateKernel(entries_of(request, common), request, common, rule, context) {}

  void run_then(const KernelArguments& arguments, const ScalarProgram& then) override {
    const Controls controls{.learning_rate = arguments.input<float>(0),
                            .inverse_scale = arguments.input<float>(1),
                            .apply = arguments.input<bool>(2),
                            .iterations = arguments.input<std::int64_t>(3),
                            .clip = common_.clipped ? arguments.input<float>(kControls) : nullptr,
                            .one_coefficient = one_coefficient_,
                            .clip_value = common_.clip_value,
                            .weight_decay = common_.weight_decay};
    const bool has_double = !double_.is_empty();
    if (!single_.is_empty()) {
      start<float>(single_, controls, arguments, has_double ? ScalarProgram() : then);
    }
    if (has_double) start<double>(double_, controls, arguments, then);
  }

 private:
  static constexpr int kLists = kListsOf<Rule>;

  UpdateKernel(const std::vector<Entry<kLists>>& entries, const KernelRequest& request,
               const ops::UpdateAttributes& common, Rule rule, Context& context)
      : CarryingKernel("tables", 0, launches_of(entries)),
        rule_(rule),
        common_(common),
        variables_(variables_of(request, common)),
        copies_(variables_, -1),
        first_gradient_(first_gradient_of(request, common)),
        one_coefficient_(common.clipped && request.inputs[kControls].shape[0] == 1),
        counter_(context.block_counter()),
        context_(context),
        single_(
            entries, [](const auto& entry) { return !is_double(entry); }, context),
        double_(
            entries, [](const auto& entry) { return is_double(entry); }, context) {
    for (std::size_t i = 0; i < common.copies.size(); ++i) {
      copies_[common.copies[i].variable] =
          static_cast<std::ptrdiff_t>(variables_ * (1 + Rule::kSlots) + i);
    }
  }

  static bool is_double(const Entry<kLists>& entry) { return entry.dtype[0] == DType::kFloat64; }
  static int launches_of(const std::vector<Entry<kLists>>& entries) {
    const auto doubles = std::count_if(entries.begin(), entries.end(), is_double);
    return doubles == 0 || doubles == std::ssize(entries) ? 1 : 2;
  }

  static std::size_t variables_of(const KernelRequest& request,
                                  const ops::UpdateAttributes& common) {
    return (request.outputs.size() - common.copies.size()) / (1 + Rule::kSlots);
  }
  static int columns_of(const Shape& shape) {
    return shape.rank() == 0 ? 1 : static_cast<int>(shape[-1]);
  }
  static std::size_t first_gradient_of(const KernelRequest& request,
                                       const ops::UpdateAttributes& common) {
    return kControls + (common.clipped ? 1 : 0) + variables_of(request, common);
  }

  static std::vector<Entry<kLists>> entries_of(const KernelRequest& request,
                                               const ops::UpdateAttributes& common) {
    const std::size_t first_gradient = first_gradient_of(request, common);
    std::vector<Entry<kLists>> entries;
    for (std::size_t i = 0; i < variables_of(request, common); ++i) {
      const TensorType& variable = request.outputs[i];
      Entry<kLists> entry;
      entry.elements = variable.shape.elements();
      entry.columns = columns_of(variable.shape);
      entry.dtype[0] = variable.dtype;
      entry.dtype[1] = request.inputs[first_gradient + i].dtype;
      if (common.decayed.empty() || common.decayed[i]) entry.flags |= kDecays;
      if (!common.transposed_gradients.empty() && common.transposed_gradients[i]) {
        entry.flags |= kGradientIsTransposed;
      }
      for (int slot = 0; slot < Rule::kSlots; ++slot) {
        entry.dtype[2 + slot] = accumulation_dtype(variable.dtype);
      }
      entries.push_back(entry);
    }
    const std::size_t first_copy = entries.size() * (1 + Rule::kSlots);
    for (std::size_t i = 0; i < common.copies.size(); ++i) {
      Entry<kLists>& entry = entries[common.copies[i].variable];
      entry.dtype[kLists - 1] = request.outputs[first_copy + i].dtype;
      if (common.copies[i].transposed) entry.flags |= kCopyIsTransposed;
    }
    return entries;
  }

  template <class C>
  void start(const Tensors<kLists>& tensors, const Controls& controls,
             const KernelArguments& arguments, const ScalarProgram& then) const {
    const Table<kLists> table = tensors.table([&](int list, std::size_t tensor) -> void* {
      if (list == 1) return const_cast<void*>(arguments.inputs[first_gradient_ + tensor]);
      if (list == kLists - 1) {
        const std::ptrdiff_t copy = copies_[tensor];
        return copy < 0 ? nullptr : arguments.outputs[static_cast<std::size_t>(copy)];
      }
      const std::size_t group = list == 0 ? 0 : static_cast<std::size_t>(list) - 1;
      return arguments.outputs[group * variables_ + tensor];
    });
    launch(&update<C, Rule>, tensors.blocks(), kThreads, 0, context_.stream(), table, controls,
           rule_, then, counter_);
  }

  Rule rule_;
  ops::UpdateAttributes common_;
  std::size_t variables_;
  std::vector<std::ptrdiff_t> copies_;  ///< of each variable the output that is its copy, or -1
  std::size_t first_gradient_;
  bool one_coefficient_;
  unsigned* counter_;
  Context& context_;
  Tensors<kLists> single_, double_;
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
