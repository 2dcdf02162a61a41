// Streams, events, and the order in which queued work runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {

// Note [Deferred work]
// Work that is issued to a stream waits in its queue until the host waits for something: then, on
// the thread that waits, queued work runs until that something is done, and no further. So a host
// that forgets to wait sees the state of before every time. Which stream goes on is the order of
// issue for seed 0 and random otherwise, so that a missing cudaStreamWaitEvent shows.

/// What is issued to a stream, or recorded in a graph.
struct Operation {
  enum class Kind { kKernel, kLibrary, kCopy, kMarker };

  std::string name;
  Kind kind = Kind::kMarker;
  std::function<void()> run;  ///< on the device
  std::function<void()>
      issue;  ///< at the call that issues it, at each launch of its graph; or empty
};

/// An operation in a queue.
struct Pending {
  Operation operation;
  std::uint64_t sequence = 0;  ///< order of issue
  std::vector<std::shared_ptr<Pending>> after;
  bool done = false;
};

class Capture;

struct Stream {
  bool blocking = true;  ///< synchronises with the legacy default stream
  std::deque<std::shared_ptr<Pending>> queue;
  std::shared_ptr<Pending> last;     ///< the youngest operation issued, done or not
  std::shared_ptr<Capture> capture;  ///< what it records into; null if it does not
};

struct Event {
  bool timing = true;
  bool recorded = false;
  std::shared_ptr<Pending> mark;     ///< null if recorded in a capture, or never
  std::shared_ptr<Capture> capture;  ///< where it was last recorded, if in a capture
  std::vector<std::size_t> nodes;    ///< what it marks there
};

[[nodiscard]] Handles<Stream>& streams();
[[nodiscard]] Handles<Event>& events();

/// The stream of a handle, default streams included. Fatal if it was destroyed.
[[nodiscard]] std::shared_ptr<Stream> find_stream(cudaStream_t stream, const char* call);
[[nodiscard]] bool is_legacy(const Stream& stream);

/// Issues the operation to the stream or its capture.
cudaError_t issue(Stream& stream, Operation operation);
/// Issues to the queue, whatever is captured; to run once `after` (may be null) is done as well.
void push(Stream& stream, Operation operation, std::shared_ptr<Pending> after = nullptr);

/// Makes what is issued to the stream from now on wait.
void wait_for(Stream& stream, const std::shared_ptr<Pending>& pending);

/// Runs queued work until that one is done (null: nothing to do), or all is.
void run_until(const std::shared_ptr<Pending>& pending);
void run_all();
/// Runs one operation if any can run: for hosts that poll.
void run_one();

/// Runs an operation now, checks the guards after it; a graph's nodes run like this.
void execute(const Operation& operation);

[[nodiscard]] std::size_t pending_count();

/// True while an operation runs: its code may not call the runtime.
[[nodiscard]] bool is_running();

/// The operation that runs, for messages; "" if none does.
[[nodiscard]] const std::string& running_operation();

}  // namespace cuda_emulator
