#include "src/training/run_description.h"

#include <stdexcept>

#include <demi/device.h>
#include <demi/initializers.h>
#include <demi/model.h>
#include <demi/version.h>
#include <fmt/format.h>

#include "src/io/crc32c.h"
#include "src/training/memory/policy_trial.h"
#include "src/training/model_impl.h"
#include "src/training/trainer.h"

namespace demi::internal {
namespace {

Config model_config(const Model& model) {
  try {
    return Config::parse(model.to_json());
  } catch (const std::invalid_argument&) {
    // Layers of one's own need not have a description; the run has one without them.
    return {};
  }
}

/// The policy of most layers, and those of the others by name.
void describe_policies(const Model& model, Config& description) {
  const std::string prevailing = prevailing_policy(model.impl().graph()).name();
  Config others = Config::object();
  for (const auto& layer : model.layers()) {
    const std::string& policy = layer->dtype_policy().name();
    if (policy != prevailing) others.set(layer->name(), policy);
  }
  description.set("policy", prevailing);
  description.set("layer_policies", others);
}

Config describe_device(const std::string& name, int threads) {
  Config result = Config::object({{"name", name}});
  for (const DeviceInfo& device : devices()) {
    if (device.name != name) continue;
    result.set("description", device.description);
    if (device.compute_capability == 0) continue;
    result.set("compute_capability", device.compute_capability);
    result.set("driver_version", device.driver_version);
  }
  if (name == "cpu") {
    result.set("threads", threads);
  } else {
    result.set("libraries", gpu_library_versions());
    result.set("allow_tf32", tf32_is_allowed());
  }
  return result;
}

std::string compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::string fingerprint(const Tensor& array, const Dataset& data) {
  const auto rows = static_cast<std::size_t>(array.shape()[0]);
  const std::size_t row_bytes = rows == 0 ? 0 : array.bytes() / rows;
  const auto* bytes = static_cast<const std::byte*>(array.raw());
  std::uint32_t crc = 0;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    crc = io::crc32c(bytes + static_cast<std::size_t>(data.row(i)) * row_bytes, row_bytes, crc);
  }
  return fmt::format("{:08x}", crc);
}

Config describe_array(const Tensor& array, const Dataset& data) {
  return Config::object({{"dtype", std::string(to_string(array.dtype()))},
                         {"shape", Config::integers(array.shape().without_front().dims())},
                         {"crc32c", fingerprint(array, data)}});
}

}  // namespace

Config describe_data(const Dataset& data) {
  if (data.input_count() == 0) return {};
  Config::List inputs;
  Config::List targets;
  for (std::size_t i = 0; i < data.input_count(); ++i) {
    Config input = describe_array(data.input(i), data);
    input.set("scale", data.input_rescale(i).scale).set("offset", data.input_rescale(i).offset);
    inputs.push_back(std::move(input));
  }
  for (std::size_t i = 0; i < data.target_count(); ++i) {
    targets.push_back(describe_array(data.target(i), data));
  }
  return Config::object({{"samples", data.size()}, {"inputs", inputs}, {"targets", targets}});
}

Config describe_run(const TrainingControl& control) {
  const Model& model = *control.model;
  const Trainer& trainer = *model.impl().trainer;
  const TrainingSpec& training = *trainer.training();
  Config run = Config::object({{"model", model_config(model)}});
  describe_policies(model, run);
  run.set("optimizer", optimizer_to_config(*training.optimizer));
  Config::List losses;
  Config::List loss_weights;
  Config::List metrics;
  for (const LossSpec& loss : training.losses) losses.emplace_back(loss.name());
  for (const double weight : training.loss_weights) loss_weights.emplace_back(weight);
  for (const ReportedMetric& metric : training.metrics) metrics.emplace_back(metric.name);
  run.set("losses", losses).set("loss_weights", loss_weights).set("metrics", metrics);
  const TrainingParameters& fit = control.parameters;
  run.set("fit", Config::object({{"batch_size", fit.batch_size},
                                 {"epochs", fit.epochs},
                                 {"steps_per_epoch", fit.steps_per_epoch},
                                 {"shuffle", fit.shuffle}}));
  // As text: JSON's numbers have 53 bits for many readers.
  run.set("seeds", Config::object({{"layers", std::to_string(random_seed())},
                                   {"dropout", std::to_string(trainer.seed())},
                                   {"order", std::to_string(fit.seed)}}));
  const int threads = model.impl().compile_options->threads;
  run.set("device", describe_device(model.device(), threads));
  run.set("demi", Config::object({{"version", version()},
                                  {"git_revision", git_revision()},
                                  {"compiler", compiler()}}));
  return run;
}

}  // namespace demi::internal
