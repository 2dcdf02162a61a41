#include "tests/cuda_emulator/src/capture.h"

#include <algorithm>
#include <set>

#include "tests/cuda_emulator/src/state.h"

namespace cuda_emulator {
namespace {

/// The captures that have begun and not ended. Never destroyed.
std::vector<std::shared_ptr<Capture>>& active_captures() {
  static auto* list = new std::vector<std::shared_ptr<Capture>>;
  return *list;
}

void merge(std::vector<std::size_t>& into, const std::vector<std::size_t>& nodes) {
  std::set<std::size_t> all(into.begin(), into.end());
  all.insert(nodes.begin(), nodes.end());
  into.assign(all.begin(), all.end());
}

/// Runs the nodes in an order that their edges allow: as recorded, or a random one.
void run_graph(const Graph& graph) {
  std::vector<std::size_t> waits(graph.nodes.size());
  std::vector<std::vector<std::size_t>> followers(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    waits[i] = graph.nodes[i].after.size();
    for (const std::size_t before : graph.nodes[i].after) followers[before].push_back(i);
  }
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    auto chosen = std::min_element(ready.begin(), ready.end());
    if (state().settings.seed != 0) {
      chosen = ready.begin() + static_cast<std::ptrdiff_t>(state().stream_order() % ready.size());
    }
    const std::size_t node = *chosen;
    ready.erase(chosen);
    execute(graph.nodes[node].operation);
    for (const std::size_t follower : followers[node]) {
      if (--waits[follower] == 0) ready.push_back(follower);
    }
  }
}

}  // namespace

Handles<Graph>& graphs() {
  static auto* handles = new Handles<Graph>("graph");
  return *handles;
}

Handles<ExecutableGraph>& executable_graphs() {
  static auto* handles = new Handles<ExecutableGraph>("executable graph");
  return *handles;
}

cudaError_t launch_graph(Stream& stream, std::shared_ptr<const Graph> graph) {
  Operation operation;
  operation.name = "graph";
  operation.issue = [graph] {
    for (const Graph::Node& node : graph->nodes) {
      if (node.operation.issue) node.operation.issue();
    }
  };
  operation.run = [graph] { run_graph(*graph); };
  return issue(stream, std::move(operation));
}

cudaError_t Capture::begin(const std::shared_ptr<Stream>& stream, cudaStreamCaptureMode mode) {
  if (is_legacy(*stream)) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin_ = stream.get();
  capture->mode_ = mode;
  capture->tails_[stream.get()] = {};
  stream->capture = capture;
  active_captures().push_back(std::move(capture));
  return cudaSuccess;
}

cudaError_t Capture::end(Stream& stream, std::shared_ptr<Graph>& graph) {
  graph = nullptr;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin_ != &stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode_ != cudaStreamCaptureModeRelaxed &&
      capture->thread_ != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  for (const auto& [participant, tails] : capture->tails_) participant->capture = nullptr;
  capture->active_ = false;
  std::erase(active_captures(), capture);
  if (capture->invalid_) return cudaErrorStreamCaptureInvalidated;
  if (!capture->all_joined()) return cudaErrorStreamCaptureUnjoined;
  graph = capture->graph_;
  return cudaSuccess;
}

/// Whether the origin's last nodes wait for everything that was recorded.
bool Capture::all_joined() const {
  std::set<std::size_t> reached;
  std::vector<std::size_t> open = tails_.at(origin_);
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    const auto& after = graph_->nodes[node].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  return reached.size() == graph_->nodes.size();
}

cudaError_t Capture::record(Stream& stream, Operation operation) {
  if (invalid_) return cudaErrorStreamCaptureInvalidated;
  std::vector<std::size_t>& tails = tails_.at(&stream);
  graph_->nodes.push_back({std::move(operation), tails});
  tails = {graph_->nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t Capture::record(Stream& stream, Event& event) {
  if (invalid_) return cudaErrorStreamCaptureInvalidated;
  event.recorded = true;
  event.mark = nullptr;
  event.capture = shared_from_this();
  event.nodes = tails_.at(&stream);
  return cudaSuccess;
}

cudaError_t Capture::join(Stream& stream, const Event& event) {
  if (invalid_) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture == nullptr) {
    if (is_legacy(stream)) {
      invalidate();
      return cudaErrorStreamCaptureImplicit;
    }
    stream.capture = shared_from_this();
  }
  merge(tails_[&stream], event.nodes);
  return cudaSuccess;
}

void Capture::leave(Stream& stream) {
  invalidate();
  tails_.erase(&stream);
  if (origin_ == &stream) {
    for (const auto& [participant, tails] : tails_) participant->capture = nullptr;
    active_ = false;
    std::erase(active_captures(), shared_from_this());
  }
}

bool capture_forbids_legacy_stream() {
  bool forbidden = false;
  for (const auto& capture : active_captures()) {
    for (const auto& [participant, tails] : capture->tails_) {
      if (!participant->blocking) continue;
      capture->invalidate();
      forbidden = true;
    }
  }
  return forbidden;
}

cudaError_t capture_forbids_unsafe_call() {
  cudaError_t error = cudaSuccess;
  for (const auto& capture : active_captures()) {
    const bool forbids = capture->mode_ == cudaStreamCaptureModeGlobal ||
                         (capture->mode_ == cudaStreamCaptureModeThreadLocal &&
                          capture->thread_ == std::this_thread::get_id());
    if (!forbids) continue;
    capture->invalidate();
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t capture_forbids_device_wait() {
  for (const auto& capture : active_captures()) capture->invalidate();
  return active_captures().empty() ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

}  // namespace cuda_emulator
