#include <demi/ops/optimizer_update.h>

#include <cmath>

#include <gtest/gtest.h>

#include "src/ir/graph.h"
#include "tests/support/compare.h"
#include "tests/support/message_of.h"
#include "tests/support/run_kernel.h"

namespace demi {
namespace {

using ops::AdamAttributes;
using ops::SgdAttributes;
using testing::expect_close;
using testing::expect_identical;
using testing::message_of;
using testing::random_tensor;
using testing::rounding_unit;
using testing::run_kernel;
using testing::to_doubles;

using Values = std::vector<double>;

/// One variable and what belongs to it.
struct Entry {
  Tensor variable, gradient;
  std::vector<Tensor> slots;
};

/// Variables of odd sizes, one of them empty, one longer than a chunk.
std::vector<Entry> make_entries(DType variable_dtype, DType gradient_dtype, int slots) {
  std::vector<Entry> entries;
  std::uint64_t seed = 1;
  for (const Shape& shape : {Shape{3, 3, 1, 7}, Shape{0}, Shape{}, Shape{20001}, Shape{5, 1000}}) {
    Entry entry;
    entry.variable = random_tensor(shape, variable_dtype, seed++);
    entry.gradient = random_tensor(shape, gradient_dtype, seed++, -64, 64);
    for (int i = 0; i < slots; ++i) {
      entry.slots.push_back(random_tensor(shape, accumulation_dtype(variable_dtype), seed++, 0, 1));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

struct Controls {
  float learning_rate = 0.01f;
  float inverse_scale = 1.0f / 64;
  bool apply = true;
  std::int64_t iterations = 4;
  std::vector<float> clip = {};
  int threads = 2;
};

/// Outputs of an update op on the entries: variables, then slots.
std::vector<Tensor> update(std::string_view op, const Attributes& attributes,
                           const std::vector<Entry>& entries, const Controls& controls = {}) {
  const Tensor rate = Tensor::scalar(controls.learning_rate);
  const Tensor scale = Tensor::scalar(controls.inverse_scale);
  const Tensor apply = Tensor::scalar(controls.apply);
  const Tensor iterations = Tensor::scalar(controls.iterations);
  const Tensor clip =
      Tensor::from(controls.clip, {static_cast<std::int64_t>(controls.clip.size())});
  std::vector<const Tensor*> inputs = {&rate, &scale, &apply, &iterations};
  if (!controls.clip.empty()) inputs.push_back(&clip);
  for (const Entry& entry : entries) inputs.push_back(&entry.variable);
  for (const Entry& entry : entries) inputs.push_back(&entry.gradient);
  for (std::size_t slot = 0; slot < entries[0].slots.size(); ++slot) {
    for (const Entry& entry : entries) inputs.push_back(&entry.slots[slot]);
  }
  return run_kernel(op, attributes, inputs, {.threads = controls.threads});
}

/// What every rule does first: the prepared gradient, and the decayed variable in place.
double prepare(double g, double& w, double coefficient, const ops::UpdateAttributes& common,
               const Controls& controls, bool decays = true) {
  g *= controls.inverse_scale;
  g *= coefficient;
  if (common.clip_value > 0) g = std::min(std::max(g, -common.clip_value), common.clip_value);
  if (decays) w -= w * common.weight_decay * controls.learning_rate;
  return g;
}

struct Expected {
  Values variable, first, second, third;
};

Expected adam_reference(const Entry& entry, const AdamAttributes& a, const Controls& controls,
                        double coefficient, bool decays = true) {
  Expected e{to_doubles(entry.variable), to_doubles(entry.slots[0]), to_doubles(entry.slots[1]),
             a.amsgrad ? to_doubles(entry.slots[2]) : Values{}};
  const double t = static_cast<double>(controls.iterations) + 1;
  for (std::size_t i = 0; i < e.variable.size(); ++i) {
    const double g = prepare(entry.gradient.at(static_cast<std::int64_t>(i)), e.variable[i],
                             coefficient, a.common, controls, decays);
    double& m = e.first[i];
    double& v = e.second[i];
    m = a.beta_1 * m + (1 - a.beta_1) * g;
    v = a.beta_2 * v + (1 - a.beta_2) * g * g;
    double divisor = v;
    if (a.amsgrad) divisor = e.third[i] = std::max(e.third[i], v);
    // The form of the paper's section 2, which is also Keras': epsilon is not bias-corrected.
    const double alpha =
        controls.learning_rate * std::sqrt(1 - std::pow(a.beta_2, t)) / (1 - std::pow(a.beta_1, t));
    e.variable[i] -= alpha * m / (std::sqrt(divisor) + a.epsilon);
  }
  return e;
}

constexpr DType kFloats[] = {float32, float64, float16, bfloat16};

TEST(AdamUpdate, AgreesWithTheReferenceForEveryDtype) {
  for (const DType variable_dtype : kFloats) {
    for (const DType gradient_dtype : kFloats) {
      for (const bool amsgrad : {false, true}) {
        const auto entries = make_entries(variable_dtype, gradient_dtype, amsgrad ? 3 : 2);
        const AdamAttributes a{.common = {}, .amsgrad = amsgrad};
        const auto outputs = update("adam_update", a, entries);
        const double slot_tolerance = variable_dtype == float64 ? 1e-13 : 1e-6;
        const std::size_t n = entries.size();
        for (std::size_t i = 0; i < n; ++i) {
          const Expected expected = adam_reference(entries[i], a, {}, 1);
          EXPECT_EQ(outputs[i].dtype(), variable_dtype);
          expect_close(outputs[i], expected.variable,
                       std::max(slot_tolerance, 1.01 * rounding_unit(variable_dtype)), 1.0, "w");
          expect_close(outputs[n + i], expected.first, slot_tolerance, 1.0, "m");
          expect_close(outputs[2 * n + i], expected.second, slot_tolerance, 1.0, "v");
          if (amsgrad) expect_close(outputs[3 * n + i], expected.third, slot_tolerance);
        }
      }
    }
  }
}

TEST(AdamUpdate, ClipsAndDecaysInOrder) {
  const auto entries = make_entries(float32, float32, 2);
  const AdamAttributes a{.common = {.clipped = true,
                                    .clip_value = 0.02,
                                    .weight_decay = 0.3,
                                    .decayed = {true, true, false, true, false}}};
  const Controls controls{.learning_rate = 0.1f, .clip = {0.5f, 1, 0.25f, 0.01f, 0.125f}};
  const auto outputs = update("adam_update", a, entries, controls);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    expect_close(
        outputs[i],
        adam_reference(entries[i], a, controls, controls.clip[i], a.common.decayed[i]).variable,
        2e-6, 1.0, "variable " + std::to_string(i));
  }
}

TEST(AdamUpdate, UsesOneClipCoefficientForAll) {
  const auto entries = make_entries(float32, float16, 2);
  const AdamAttributes a{.common = {.clipped = true}};
  const Controls controls{.clip = {0.125f}};
  const auto outputs = update("adam_update", a, entries, controls);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    expect_close(outputs[i], adam_reference(entries[i], a, controls, 0.125).variable, 1e-6);
  }
}

TEST(AdamUpdate, MovesNothingForZeroGradients) {
  const Tensor zero = Tensor::full({100}, 0, float32);
  Tensor w = random_tensor({100}, float32, 3);
  const Tensor before = w.clone();
  Tensor m = zero.clone();
  Tensor v = zero.clone();
  for (std::int64_t step = 0; step < 3; ++step) {
    std::vector<Entry> entries(1);
    entries[0].variable = std::move(w);
    entries[0].gradient = zero.clone();
    entries[0].slots.push_back(std::move(m));
    entries[0].slots.push_back(std::move(v));
    auto outputs = update("adam_update", AdamAttributes{}, entries, {.iterations = step});
    w = std::move(outputs[0]);
    m = std::move(outputs[1]);
    v = std::move(outputs[2]);
  }
  expect_identical(w, before);
}

TEST(SgdUpdate, AgreesWithTheReferenceForEveryDtype) {
  for (const DType dtype : kFloats) {
    for (const double momentum : {0.0, 0.9}) {
      for (const bool nesterov : {false, true}) {
        const auto entries = make_entries(dtype, dtype, momentum > 0 ? 1 : 0);
        const SgdAttributes a{
            .common = {.weight_decay = 0.1}, .momentum = momentum, .nesterov = nesterov};
        const Controls controls;
        const auto outputs = update("sgd_update", a, entries);
        for (std::size_t i = 0; i < entries.size(); ++i) {
          Values w = to_doubles(entries[i].variable);
          Values m = momentum > 0 ? to_doubles(entries[i].slots[0]) : Values(w.size());
          for (std::size_t j = 0; j < w.size(); ++j) {
            const double g = prepare(entries[i].gradient.at(static_cast<std::int64_t>(j)), w[j], 1,
                                     a.common, controls);
            const double delta = -g * controls.learning_rate;
            m[j] = m[j] * momentum + delta;
            w[j] += nesterov ? m[j] * momentum + delta : m[j];
          }
          const double tolerance =
              std::max(dtype == float64 ? 1e-14 : 1e-6, 1.01 * rounding_unit(dtype));
          expect_close(outputs[i], w, tolerance);
          if (momentum > 0) expect_close(outputs[entries.size() + i], m, 1e-6);
        }
      }
    }
  }
}

TEST(OptimizerUpdate, WritesNothingUnlessApplied) {
  auto entries = make_entries(float32, float32, 2);
  for (Entry& entry : entries) {
    entry.gradient = Tensor::full(entry.gradient.shape(), NAN, float32);
  }
  const Controls controls{.inverse_scale = NAN, .apply = false};
  const auto outputs =
      update("adam_update", AdamAttributes{.common = {.weight_decay = 0.1}}, entries, controls);
  const std::size_t n = entries.size();
  for (std::size_t i = 0; i < n; ++i) {
    expect_identical(outputs[i], entries[i].variable);
    expect_identical(outputs[n + i], entries[i].slots[0]);
    expect_identical(outputs[2 * n + i], entries[i].slots[1]);
  }
}

TEST(OptimizerUpdate, GivesTheSameBitsForAnyThreadCount) {
  const auto entries = make_entries(float32, float16, 2);
  const auto one = update("adam_update", AdamAttributes{}, entries, {.threads = 1});
  const auto four = update("adam_update", AdamAttributes{}, entries, {.threads = 4});
  for (std::size_t i = 0; i < one.size(); ++i) expect_identical(one[i], four[i]);
}

TEST(OptimizerUpdate, DependsNotOnThePowerOfTwoThatScalesTheGradients) {
  auto plain = make_entries(float32, float32, 2);
  auto scaled = make_entries(float32, float32, 2);
  for (Entry& entry : scaled) {
    Values values = to_doubles(entry.gradient);
    for (double& value : values) value *= 32768;
    entry.gradient = Tensor::from(values, entry.gradient.shape()).to(float32);
  }
  const auto a = update("adam_update", AdamAttributes{}, plain, {.inverse_scale = 1.0f});
  const auto b = update("adam_update", AdamAttributes{}, scaled, {.inverse_scale = 0x1p-15f});
  for (std::size_t i = 0; i < a.size(); ++i) expect_identical(a[i], b[i]);
}

// ---- Around the rules
// ----------------------------------------------------------------------------

double norm(const std::vector<const Tensor*>& tensors, double scale) {
  double sum = 0;
  for (const Tensor* tensor : tensors) {
    for (const double value : to_doubles(*tensor)) sum += value * value;
  }
  return std::sqrt(sum) * scale;
}

TEST(ClipCoefficients, LimitTheNormOfUnscaledGradients) {
  for (const DType dtype : kFloats) {
    const auto entries = make_entries(float32, dtype, 0);
    const Tensor scale = Tensor::scalar(0.25f);
    std::vector<const Tensor*> gradients;
    for (const Entry& entry : entries) gradients.push_back(&entry.gradient);
    std::vector<const Tensor*> inputs = {&scale};
    inputs.insert(inputs.end(), gradients.begin(), gradients.end());
    const double limit = 20;

    Values each;
    for (const Tensor* gradient : gradients) {
      each.push_back(std::min(1.0, limit / norm({gradient}, 0.25)));
    }
    expect_close(run_kernel("clip_coefficients", ops::ClipAttributes{limit, false}, inputs)[0],
                 each, 1e-6);
    EXPECT_LT(each[0], 1);
    EXPECT_EQ(each[1], 1);
    expect_close(run_kernel("clip_coefficients", ops::ClipAttributes{limit, true}, inputs)[0],
                 {limit / norm(gradients, 0.25)}, 1e-6);
    expect_identical(run_kernel("clip_coefficients", ops::ClipAttributes{limit, true}, inputs,
                                {.threads = 1})[0],
                     run_kernel("clip_coefficients", ops::ClipAttributes{limit, true}, inputs,
                                {.threads = 4})[0]);
  }
}

TEST(ClipCoefficients, SurviveHugeGradientsAndReportInfinity) {
  const Tensor scale = Tensor::scalar(1.0f);
  const Tensor huge = Tensor::full({1000}, 1e30, float32);
  const Tensor infinite = Tensor::full({3}, INFINITY, float32);
  const ops::ClipAttributes attributes{1, false};
  const Tensor clip =
      std::move(run_kernel("clip_coefficients", attributes, {&scale, &huge, &infinite})[0]);
  EXPECT_NEAR(clip.at(0) * 1e30 * std::sqrt(1000.0), 1, 1e-6);
  EXPECT_TRUE(std::isnan(clip.at(1)));
}

TEST(AccumulateGradients, SumsUnscaledGradientsFromPositionZeroOn) {
  for (const DType dtype : kFloats) {
    const auto entries = make_entries(float32, dtype, 1);
    const Tensor scale = Tensor::scalar(0.5f);
    const Tensor yes = Tensor::scalar(true);
    const Tensor no = Tensor::scalar(false);
    const auto accumulate = [&](const Tensor& apply, std::int64_t position) {
      const Tensor at = Tensor::scalar(position);
      std::vector<const Tensor*> inputs = {&scale, &apply, &at};
      for (const Entry& entry : entries) inputs.push_back(&entry.slots[0]);
      for (const Entry& entry : entries) inputs.push_back(&entry.gradient);
      return run_kernel("accumulate_gradients", {}, inputs);
    };
    const auto started = accumulate(yes, 0);
    const auto added = accumulate(yes, 2);
    const auto skipped = accumulate(no, 0);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Values first = to_doubles(entries[i].gradient);
      for (double& value : first) value *= 0.5;
      expect_close(started[i], first, 3e-7);
      Values sum = to_doubles(entries[i].slots[0]);
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += first[j];
      expect_close(added[i], sum, 3e-7);
      expect_identical(skipped[i], entries[i].slots[0]);
    }
  }
}

struct EmaRun {
  Tensor average, variable;
};

EmaRun ema(const Tensor& variable, const Tensor& average, std::int64_t iterations,
           const ops::EmaAttributes& attributes, bool applied = true) {
  const Tensor apply = Tensor::scalar(applied);
  const Tensor at = Tensor::scalar(iterations);
  auto outputs = run_kernel("ema_update", attributes, {&apply, &at, &variable, &average});
  return {std::move(outputs[0]), outputs.size() > 1 ? std::move(outputs[1]) : variable.clone()};
}

TEST(EmaUpdate, AveragesAndOverwritesInTime) {
  for (const DType dtype : kFloats) {
    const Tensor w = random_tensor({20000}, dtype, 1);
    const Tensor average = random_tensor({20000}, accumulation_dtype(dtype), 2);
    const ops::EmaAttributes attributes{.momentum = 0.75, .overwrite_frequency = 3};
    Values expected = to_doubles(average);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = expected[i] * 0.75 + w.at(static_cast<std::int64_t>(i)) * 0.25;
    }
    const EmaRun fourth = ema(w, average, 3, attributes);
    expect_close(fourth.average, expected, 1e-7);
    expect_identical(fourth.variable, w);
    const EmaRun third = ema(w, average, 2, attributes);
    expect_close(third.average, expected, 1e-7);
    expect_identical(third.variable, third.average.to(dtype));
    const Tensor unset = Tensor::full({20000}, NAN, accumulation_dtype(dtype));
    expect_identical(ema(w, unset, 0, attributes).average, w.to(accumulation_dtype(dtype)));
    expect_identical(ema(w, average, 2, attributes, false).average, average);
    expect_identical(ema(w, average, 2, attributes, false).variable, w);
  }
}

TEST(OptimizerUpdate, RefusesListsThatDoNotFit) {
  const auto graph = ir::Graph::create();
  const auto value = [&](DType dtype, const Shape& shape) {
    return graph->tensor(graph->add_input("v", {shape, dtype}));
  };
  const auto w = value(float32, {2, 3});
  ops::UpdateInputs inputs{.learning_rate = value(float32, {}),
                           .inverse_scale = {},
                           .apply = {},
                           .iterations = value(int64, {}),
                           .clip = {},
                           .variables = {w},
                           .gradients = {value(float32, {3, 2})},
                           .slots = {{w}, {w}}};
  const auto refused = [](const auto& f) { return message_of<std::invalid_argument>(f); };
  EXPECT_EQ(refused([&] { ops::adam_update(inputs, {}); }),
            "[adam_update] expected floating tensors of one shape. Received: float32[2, 3] and "
            "float32[3, 2].");
  inputs.gradients = {w};
  inputs.slots = {{w}, {value(float16, {2, 3})}};
  EXPECT_EQ(refused([&] { ops::adam_update(inputs, {}); }),
            "[adam_update] expected a slot of the variable's accumulation dtype. Received: "
            "float32[2, 3] and float16[2, 3].");
  inputs.slots = {{w}};
  EXPECT_EQ(refused([&] { ops::adam_update(inputs, {}); }),
            "[adam_update] expected 4 lists of equally many tensors after 4 scalars. Received: 3 "
            "tensors.");
}

}  // namespace
}  // namespace demi
