// Capture of streams into graphs, and the rules that a program must keep meanwhile.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cuda_emulator/src/scheduler.h"

namespace cuda_emulator {

/// Nodes stand after those that they wait for.
struct Graph {
  struct Node {
    Operation operation;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
};

struct ExecutableGraph {
  std::shared_ptr<const Graph> graph;
};

[[nodiscard]] Handles<Graph>& graphs();
[[nodiscard]] Handles<ExecutableGraph>& executable_graphs();

/// Issues one run of the graph.
cudaError_t launch_graph(Stream& stream, std::shared_ptr<const Graph> graph);

/// One capture, from begin to end, with every stream that joined it.
class Capture : public std::enable_shared_from_this<Capture> {
 public:
  /// Makes the stream the origin of a capture.
  static cudaError_t begin(const std::shared_ptr<Stream>& stream, cudaStreamCaptureMode mode);
  /// Ends the capture of its origin; null if it fails.
  static cudaError_t end(Stream& stream, std::shared_ptr<Graph>& graph);

  cudaError_t record(Stream& stream, Operation operation);
  /// The event marks what the stream has recorded so far.
  cudaError_t record(Stream& stream, Event& event);
  /// The stream waits for an event of this capture, and joins it.
  cudaError_t join(Stream& stream, const Event& event);
  /// A participant is destroyed.
  void leave(Stream& stream);

  void invalidate() { invalid_ = true; }
  [[nodiscard]] bool invalid() const { return invalid_; }
  [[nodiscard]] bool active() const { return active_; }

 private:
  friend bool capture_forbids_legacy_stream();
  friend cudaError_t capture_forbids_unsafe_call();

  [[nodiscard]] bool all_joined() const;

  Stream* origin_ = nullptr;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeGlobal;
  std::thread::id thread_ = std::this_thread::get_id();
  bool invalid_ = false;
  bool active_ = true;
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  std::map<Stream*, std::vector<std::size_t>> tails_;  ///< participant → its last nodes
};

/// True, and invalidates the capture, if the legacy stream would wait for a stream that is
/// captured.
[[nodiscard]] bool capture_forbids_legacy_stream();

/// cudaErrorStreamCaptureUnsupported, and invalidates the capture, if a capture forbids this thread
/// calls that may wait (cudaMalloc and its like).
[[nodiscard]] cudaError_t capture_forbids_unsafe_call();

/// The same for a wait for the whole device, which every capture forbids.
[[nodiscard]] cudaError_t capture_forbids_device_wait();

}  // namespace cuda_emulator
