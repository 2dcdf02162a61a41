#include "tests/cuda_emulator/src/scheduler.h"

#include <algorithm>
#include <limits>

#include "tests/cuda_emulator/src/capture.h"
#include "tests/cuda_emulator/src/memory.h"
#include "tests/cuda_emulator/src/state.h"

namespace cuda_emulator {
namespace {

/// A GPU's queues are finite too: a host that issues more waits until there is room.
constexpr std::size_t kMaxQueued = 4096;

struct Scheduler {
  std::shared_ptr<Stream> legacy = std::make_shared<Stream>();
  std::shared_ptr<Stream> per_thread = std::make_shared<Stream>();
  std::uint64_t sequence = 0;
  std::size_t pending = 0;
  std::string running;
  bool is_running = false;
};

Scheduler& scheduler() {
  static auto* instance = new Scheduler;
  return *instance;
}

template <class Body>
void for_each_stream(Body&& body) {
  body(*scheduler().legacy);
  body(*scheduler().per_thread);
  for (const auto& [handle, stream] : streams().all()) body(*stream);
}

bool can_run(const Pending& pending) {
  return std::all_of(pending.after.begin(), pending.after.end(),
                     [](const std::shared_ptr<Pending>& other) { return other->done; });
}

/// The stream whose first operation runs next; null if no queue holds any.
Stream* choose() {
  std::vector<Stream*> ready;
  for_each_stream([&](Stream& stream) {
    if (!stream.queue.empty() && can_run(*stream.queue.front())) ready.push_back(&stream);
  });
  if (ready.empty()) {
    if (scheduler().pending > 0) fatal("queued work waits for itself");
    return nullptr;
  }
  if (state().settings.seed != 0) {
    return ready[state().stream_order() % ready.size()];
  }
  return *std::min_element(ready.begin(), ready.end(), [](const Stream* a, const Stream* b) {
    return a->queue.front()->sequence < b->queue.front()->sequence;
  });
}

/// Runs operations of the chosen streams as long as `more`.
template <class More>
void run_while(More&& more) {
  if (!more()) return;
  if (scheduler().is_running) fatal("the host waits for the device inside work on a stream");
  const DeviceAccess access;
  scheduler().is_running = true;
  while (more()) {
    Stream* stream = choose();
    if (stream == nullptr) break;
    const std::shared_ptr<Pending> next = stream->queue.front();
    stream->queue.pop_front();
    --scheduler().pending;
    execute(next->operation);
    next->done = true;
    next->after.clear();
    next->operation = {};
  }
  scheduler().is_running = false;
}

}  // namespace

Handles<Stream>& streams() {
  static auto* handles = new Handles<Stream>("stream");
  return *handles;
}

Handles<Event>& events() {
  static auto* handles = new Handles<Event>("event");
  return *handles;
}

std::shared_ptr<Stream> find_stream(cudaStream_t stream, const char* call) {
  if (stream == nullptr || stream == cudaStreamLegacy) return scheduler().legacy;
  if (stream == cudaStreamPerThread) return scheduler().per_thread;
  return streams().get(stream, call);
}

bool is_legacy(const Stream& stream) {
  return &stream == scheduler().legacy.get();
}

void push(Stream& stream, Operation operation, std::shared_ptr<Pending> after) {
  if (operation.issue) operation.issue();
  auto pending = std::make_shared<Pending>();
  pending->sequence = ++scheduler().sequence;
  pending->operation = std::move(operation);
  if (after != nullptr) pending->after.push_back(std::move(after));
  if (is_legacy(stream)) {
    for_each_stream([&](Stream& other) {
      if (other.blocking && other.last != nullptr && !other.last->done) {
        pending->after.push_back(other.last);
      }
    });
  } else if (stream.blocking && scheduler().legacy->last != nullptr &&
             !scheduler().legacy->last->done) {
    pending->after.push_back(scheduler().legacy->last);
  }
  stream.queue.push_back(pending);
  stream.last = std::move(pending);
  ++scheduler().pending;
  if (scheduler().pending > kMaxQueued) {
    run_while([] { return scheduler().pending > kMaxQueued; });
  }
}

cudaError_t issue(Stream& stream, Operation operation) {
  if (scheduler().is_running) return cudaErrorNotPermitted;
  if (stream.capture != nullptr) return stream.capture->record(stream, std::move(operation));
  if (is_legacy(stream) && capture_forbids_legacy_stream()) {
    return cudaErrorStreamCaptureImplicit;
  }
  switch (operation.kind) {
    case Operation::Kind::kKernel:
      ++state().counters.kernel_launches;
      break;
    case Operation::Kind::kLibrary:
      ++state().counters.library_launches;
      break;
    default:
      break;
  }
  push(stream, std::move(operation));
  return cudaSuccess;
}

void execute(const Operation& operation) {
  State& s = state();
  if (operation.kind == Operation::Kind::kMarker) {
    if (operation.run) operation.run();
    return;
  }
  // After a fault the device does nothing more.
  if (s.sticky_error != cudaSuccess) return;
  ++s.counters.operations;
  if (s.operations.fires()) {
    s.sticky_error = cudaErrorIllegalAddress;
    return;
  }
  scheduler().running = operation.name;
  operation.run();
  device_memory().check_guards();
  scheduler().running.clear();
}

void wait_for(Stream& stream, const std::shared_ptr<Pending>& pending) {
  if (pending == nullptr || pending->done) return;
  push(stream, {"wait for an event", Operation::Kind::kMarker, {}, {}}, pending);
}

void run_until(const std::shared_ptr<Pending>& pending) {
  run_while([&] { return pending != nullptr && !pending->done; });
}

void run_all() {
  run_while([] { return scheduler().pending > 0; });
}

void run_one() {
  const std::size_t before = scheduler().pending;
  run_while([before] { return scheduler().pending > 0 && scheduler().pending == before; });
}

std::size_t pending_count() {
  return scheduler().pending;
}

bool is_running() {
  return scheduler().is_running;
}

const std::string& running_operation() {
  return scheduler().running;
}

cudaError_t enqueue(cudaStream_t stream, std::string name, std::function<void()> work) {
  const std::lock_guard lock(mutex());
  return issue(*find_stream(stream, name.c_str()),
               {name, Operation::Kind::kLibrary, std::move(work), {}});
}

}  // namespace cuda_emulator
