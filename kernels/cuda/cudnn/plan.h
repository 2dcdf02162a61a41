// Plan: an operation graph of cuDNN with the engine that runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/graph.h"

namespace demi::cuda::cudnn {

/// One of cuDNN's engines with its settings. Together with the graph, the device and cuDNN's
/// version it determines a plan.
struct EngineChoice {
  std::int64_t engine = -1;                                  ///< CUDNN_ATTR_ENGINE_GLOBAL_INDEX
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;  ///< cudnnBackendKnobType_t, value
  friend bool operator==(const EngineChoice&, const EngineChoice&) = default;
};

/// What cuDNN says of an engine.
struct EngineNotes {
  std::vector<cudnnBackendNumericalNote_t> numerical;
  std::vector<cudnnBackendBehaviorNote_t> behavior;

  [[nodiscard]] bool has(cudnnBackendNumericalNote_t note) const;
  [[nodiscard]] bool has(cudnnBackendBehaviorNote_t note) const;
};

/// An engine and its settings, as cuDNN's heuristics suggest it or as it was once chosen.
class EngineConfig {
 public:
  explicit EngineConfig(Descriptor config);
  /// Empty with cuDNN's reason if the graph has no such engine.
  static std::optional<EngineConfig> rebuild(const Graph& graph, const EngineChoice& choice,
                                             std::string& reason);

  [[nodiscard]] const Descriptor& descriptor() const { return config_; }
  [[nodiscard]] const EngineChoice& choice() const { return choice_; }
  [[nodiscard]] const EngineNotes& notes() const { return notes_; }

 private:
  Descriptor config_;
  std::vector<Descriptor> parts_;  ///< engine and knobs of a rebuilt one
  EngineChoice choice_;
  EngineNotes notes_;
};

/// Move-only, prepared once.
class Plan {
 public:
  /// Empty with cuDNN's reason if the engine cannot run the graph on the graph's target.
  static std::optional<Plan> make(std::shared_ptr<const Graph> graph, EngineConfig config,
                                  std::string& reason);

  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] const EngineChoice& choice() const { return config_.choice(); }
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }
  [[nodiscard]] bool uses_tensor_cores() const {
    return config_.notes().has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  }
  /// "engine 34 (tensor cores, knobs 2=5 7=1), workspace 131 B".
  [[nodiscard]] std::string description() const;

  /// Queues the plan on the stream of the target's handle. `pointers` are device addresses in the
  /// order of Graph::tensors(); `workspace` has workspace_bytes(), aligned to 256 bytes. Throws
  /// DeviceError.
  void run(std::span<void* const> pointers, void* workspace);

 private:
  Plan(std::shared_ptr<const Graph> graph, EngineConfig config, Descriptor plan);
  void bind(std::span<void* const> pointers, void* workspace);

  std::shared_ptr<const Graph> graph_;
  EngineConfig config_;
  Descriptor plan_;
  std::size_t workspace_bytes_;
  /// The addresses of the last run, which are usually those of the next.
  std::optional<Descriptor> pack_;
  std::vector<void*> bound_;
};

}  // namespace demi::cuda::cudnn
