#include "kernels/cuda/cudnn/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include <demi/error.h>

#include "src/core/check.h"

namespace demi::cuda::cudnn {
namespace {

/// More knobs or notes than an engine has.
constexpr std::int64_t kMany = 64;

template <class T>
bool contains(const std::vector<T>& list, T value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

bool EngineNotes::has(cudnnBackendNumericalNote_t note) const {
  return contains(numerical, note);
}

bool EngineNotes::has(cudnnBackendBehaviorNote_t note) const {
  return contains(behavior, note);
}

EngineConfig::EngineConfig(Descriptor config) : config_(std::move(config)) {
  const std::vector<Descriptor> engine =
      config_.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  DEMI_CHECK(engine.size() == 1, "an engine configuration has one engine");
  choice_.engine = engine[0].value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  notes_.numerical =
      engine[0].values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, kMany);
  notes_.behavior =
      engine[0].values<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, kMany);
  for (const Descriptor& knob : config_.descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                    CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, kMany)) {
    choice_.knobs.emplace_back(knob.value<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
                               knob.value<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
}

std::optional<EngineConfig> EngineConfig::rebuild(const Graph& graph, const EngineChoice& choice,
                                                  std::string& reason) try {
  std::vector<Descriptor> parts;
  Descriptor& engine = parts.emplace_back(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.descriptor());
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine);
  graph.target().describe(engine, CUDNN_ATTR_ENGINE_DEVICEPROP);
  if (!engine.finalize(reason)) return std::nullopt;
  Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  std::vector<Descriptor> knobs;
  for (const auto& [type, value] : choice.knobs) {
    Descriptor& knob = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type));
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    if (!knob.finalize(reason)) return std::nullopt;
  }
  if (!knobs.empty()) config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  if (!config.finalize(reason)) return std::nullopt;
  EngineConfig rebuilt(std::move(config));
  std::move(knobs.begin(), knobs.end(), std::back_inserter(parts));
  rebuilt.parts_ = std::move(parts);
  return rebuilt;
} catch (const DeviceError& error) {
  reason = error.what();
  return std::nullopt;
}

Plan::Plan(std::shared_ptr<const Graph> graph, EngineConfig config, Descriptor plan)
    : graph_(std::move(graph)),
      config_(std::move(config)),
      plan_(std::move(plan)),
      workspace_bytes_(static_cast<std::size_t>(
          plan_.value<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))) {}

std::optional<Plan> Plan::make(std::shared_ptr<const Graph> graph, EngineConfig config,
                               std::string& reason) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  graph->target().bind(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                       CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config.descriptor());
  if (!plan.finalize(reason)) return std::nullopt;
  return Plan(std::move(graph), std::move(config), std::move(plan));
}

std::string Plan::description() const {
  std::string details = uses_tensor_cores() ? "tensor cores" : "no tensor cores";
  if (!choice().knobs.empty() && choice().knobs.size() <= 4) {
    details += ", knobs";
    for (const auto& [type, value] : choice().knobs) details += fmt::format(" {}={}", type, value);
  }
  return fmt::format("engine {} ({}), workspace {} B", choice().engine, details, workspace_bytes_);
}

void Plan::bind(std::span<void* const> pointers, void* workspace) {
  const std::vector<Graph::Tensor>& tensors = graph_->tensors();
  DEMI_CHECK(pointers.size() == tensors.size(), "a plan runs on one address per tensor");
  std::vector<TensorId> ids;
  ids.reserve(tensors.size());
  for (const Graph::Tensor& tensor : tensors) ids.push_back(tensor.id);
  pack_.emplace(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack_->set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const TensorId>(ids));
  pack_->set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  pack_->set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pack_->finalize();
  bound_.assign(pointers.begin(), pointers.end());
  bound_.push_back(workspace);
}

void Plan::run(std::span<void* const> pointers, void* workspace) {
  const bool same = bound_.size() == pointers.size() + 1 && bound_.back() == workspace &&
                    std::equal(pointers.begin(), pointers.end(), bound_.begin());
  if (!same) bind(pointers, workspace);
  const cudnnStatus_t status =
      cudnnBackendExecute(graph_->target().handle(), plan_.get(), pack_->get());
  if (status != CUDNN_STATUS_SUCCESS) {
    throw DeviceError("[cudnn] running " + description() + " failed: " + explain(status) + ".");
  }
}

}  // namespace demi::cuda::cudnn
