#include "benchmarks/compare_precision/report/details.h"

#include <algorithm>
#include <memory>

#include <nlohmann/json.hpp>

namespace demi::benchmarks {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLookedAtSteps = 100;
constexpr std::int64_t kStepsBetweenLooks = 20;

Json range_to_json(const RangeSummary& range) {
  return {{"max_abs", range.max_abs},
          {"overflowing", range.overflowing},
          {"flushed", range.flushed},
          {"non_finite", range.non_finite}};
}

}  // namespace

Json plan_to_json(const models::RunOptions& options, const Dataset& train) {
  const Model model = models::build_model(options, train);
  const PlannedStep step = plan_training_step(model, train, models::compile_options(options),
                                              {.batch_size = options.batch_size});
  Json calls = Json::array();
  for (const PlannedCall& call : step.calls) {
    calls.push_back({{"layer", call.layer},
                     {"phase", call.phase},
                     {"op", call.op},
                     {"kernel", call.kernel},
                     {"inputs", call.inputs},
                     {"outputs", call.outputs}});
  }
  Json timeline = Json::array();
  for (const MemoryMoment& moment : step.memory.timeline) {
    timeline.push_back({{"activations", moment.activations},
                        {"compute_copies", moment.compute_copies},
                        {"gradients", moment.gradients},
                        {"temporaries", moment.temporaries},
                        {"workspace", moment.workspace}});
  }
  return {{"calls", calls}, {"timeline", timeline}};
}

std::string precision_table(const models::RunOptions& options, const Dataset& train) {
  Model model = models::build_model(options, train);
  model.compile(models::compile_options(options));
  return to_string(model.precision_report(options.batch_size, {.data = train}));
}

Json precision_to_json(const models::RunOptions& options, const Dataset& train) {
  Model model = models::build_model(options, train);
  model.compile(models::compile_options(options));
  const auto monitor = std::make_shared<PrecisionMonitor>(
      PrecisionMonitorOptions{.every_steps = kStepsBetweenLooks, .verbose = false});
  const std::int64_t steps =
      options.steps > 0 ? std::min(options.steps, kLookedAtSteps) : kLookedAtSteps;
  (void)model.fit(train, {.batch_size = options.batch_size,
                          .epochs = options.epochs,
                          .callbacks = {monitor},
                          .verbose = 0,
                          .max_steps = steps});
  const PrecisionReport report = monitor->report();
  Json layers = Json::array();
  for (const LayerPrecision& layer : report.layers) {
    layers.push_back({{"layer", layer.layer},
                      {"activation", range_to_json(layer.activation)},
                      {"gradient", range_to_json(layer.gradient)}});
  }
  return {{"looks", report.looks},
          {"loss_scale", report.loss_scale},
          {"recommended_scale", report.recommended_scale},
          {"layers", layers},
          {"keep_float32", report.keep_float32},
          {"findings", report.findings}};
}

}  // namespace demi::benchmarks
