// The runtime's functions for streams, events and graphs.

#include "tests/cuda_emulator/src/api.h"
#include "tests/cuda_emulator/src/capture.h"
#include "tests/cuda_emulator/src/scheduler.h"

using namespace cuda_emulator;

namespace {

cudaError_t create_stream(cudaStream_t* stream, unsigned flags) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return cudaErrorInvalidValue;
  }
  auto object = std::make_shared<Stream>();
  object->blocking = (flags & cudaStreamNonBlocking) == 0;
  *stream = static_cast<cudaStream_t>(streams().create(std::move(object)));
  return cudaSuccess;
}

/// Whether the host may wait for the stream, or ask how far it is.
cudaError_t check_wait(const Stream& stream) {
  if (stream.capture != nullptr) {
    stream.capture->invalidate();
    return cudaErrorStreamCaptureUnsupported;
  }
  if (is_legacy(stream) && capture_forbids_legacy_stream()) return cudaErrorStreamCaptureImplicit;
  return cudaSuccess;
}

/// The last work issued to the stream; for the legacy stream, to all that it waits for.
std::shared_ptr<Pending> last_of(Stream& stream) {
  if (is_legacy(stream)) push(stream, {"wait", Operation::Kind::kMarker, {}, {}});
  return stream.last;
}

cudaError_t wait_for_stream(Stream& stream) {
  if (const cudaError_t error = check_wait(stream); error != cudaSuccess) return error;
  ++state().counters.host_synchronizations;
  run_until(last_of(stream));
  return state().sticky_error;
}

cudaError_t query(const std::shared_ptr<Pending>& pending) {
  if (pending == nullptr || pending->done) return state().sticky_error;
  // A host that asks again and again must see the end some time.
  run_one();
  return cudaErrorNotReady;
}

cudaError_t create_event(cudaEvent_t* event, unsigned flags) {
  if (event == nullptr) return cudaErrorInvalidValue;
  auto object = std::make_shared<Event>();
  object->timing = (flags & cudaEventDisableTiming) == 0;
  *event = static_cast<cudaEvent_t>(events().create(std::move(object)));
  return cudaSuccess;
}

cudaError_t record(Event& event, Stream& stream) {
  if (stream.capture != nullptr) return stream.capture->record(stream, event);
  const cudaError_t error = issue(stream, {"event", Operation::Kind::kMarker, {}, {}});
  if (error != cudaSuccess) return error;
  event.recorded = true;
  event.mark = stream.last;
  event.capture = nullptr;
  event.nodes.clear();
  return cudaSuccess;
}

cudaError_t stream_waits(Stream& stream, const Event& event) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (event.capture != nullptr) {
    if (capture != nullptr && capture != event.capture) {
      capture->invalidate();
      if (!event.capture->active()) return cudaErrorStreamCaptureIsolation;
      event.capture->invalidate();
      return cudaErrorStreamCaptureMerge;
    }
    if (!event.capture->active()) return cudaErrorCapturedEvent;
    return event.capture->join(stream, event);
  }
  if (capture != nullptr) {
    if (!event.recorded) return cudaSuccess;
    capture->invalidate();
    return cudaErrorStreamCaptureIsolation;
  }
  wait_for(stream, event.mark);
  return cudaSuccess;
}

/// Whether the host may ask about the event.
cudaError_t check_event(const Event& event) {
  if (event.capture == nullptr) return cudaSuccess;
  event.capture->invalidate();
  return cudaErrorCapturedEvent;
}

/// The object of a handle that must not be null.
template <class T, class Handle, class Body>
cudaError_t with(const Handles<T>& handles, Handle handle, const char* call, Body&& body) {
  return api(call, [&] {
    const std::shared_ptr<T> object = handles.get(handle, call);
    return object == nullptr ? cudaErrorInvalidResourceHandle : body(*object);
  });
}

}  // namespace

extern "C" {

// ---- Streams
// --------------------------------------------------------------------------------------

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return api("cudaStreamCreate", [&] { return create_stream(stream, cudaStreamDefault); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return api("cudaStreamCreateWithFlags", [&] { return create_stream(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return api("cudaStreamCreateWithPriority", [&] { return create_stream(stream, flags); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with(streams(), stream, "cudaStreamDestroy", [&](Stream& object) {
    if (object.capture != nullptr) {
      object.capture->leave(object);
    } else {
      run_until(object.last);
    }
    streams().destroy(stream, "cudaStreamDestroy");
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return api("cudaStreamSynchronize",
             [&] { return wait_for_stream(*find_stream(stream, "cudaStreamSynchronize")); });
}

cudaError_t cudaDeviceSynchronize() {
  return api("cudaDeviceSynchronize", [&] {
    if (const cudaError_t error = capture_forbids_device_wait(); error != cudaSuccess) {
      return error;
    }
    ++state().counters.host_synchronizations;
    run_all();
    return state().sticky_error;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return api("cudaStreamQuery", [&] {
    const auto object = find_stream(stream, "cudaStreamQuery");
    const cudaError_t error = check_wait(*object);
    return error != cudaSuccess ? error : query(object->last);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return with(events(), event, "cudaStreamWaitEvent", [&](const Event& object) {
    return stream_waits(*find_stream(stream, "cudaStreamWaitEvent"), object);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return api("cudaLaunchHostFunc", [&] {
    Operation operation;
    operation.name = "host function";
    operation.kind = Operation::Kind::kCopy;
    operation.run = [=] { function(data); };
    return issue(*find_stream(stream, "cudaLaunchHostFunc"), std::move(operation));
  });
}

// ---- Events
// ---------------------------------------------------------------------------------------

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return api("cudaEventCreate", [&] { return create_event(event, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return api("cudaEventCreateWithFlags", [&] { return create_event(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with(events(), event, "cudaEventDestroy", [&](const Event&) {
    events().destroy(event, "cudaEventDestroy");
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return with(events(), event, "cudaEventRecord", [&](Event& object) {
    return record(object, *find_stream(stream, "cudaEventRecord"));
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with(events(), event, "cudaEventSynchronize", [&](const Event& object) {
    if (const cudaError_t error = check_event(object); error != cudaSuccess) return error;
    ++state().counters.host_synchronizations;
    run_until(object.mark);
    return state().sticky_error;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with(events(), event, "cudaEventQuery", [&](const Event& object) {
    const cudaError_t error = check_event(object);
    return error != cudaSuccess ? error : query(object.mark);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  return with(events(), start, "cudaEventElapsedTime", [&](const Event& first) {
    const auto second = events().get(stop, "cudaEventElapsedTime");
    if (second == nullptr || !first.timing || !second->timing || first.mark == nullptr ||
        second->mark == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!first.mark->done || !second->mark->done) return cudaErrorNotReady;
    // No time is modelled: a microsecond for each operation that was issued.
    *milliseconds = 1e-3f * (static_cast<float>(second->mark->sequence) -
                             static_cast<float>(first.mark->sequence));
    return cudaSuccess;
  });
}

// ---- Graphs
// ---------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api("cudaStreamBeginCapture",
             [&] { return Capture::begin(find_stream(stream, "cudaStreamBeginCapture"), mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return api("cudaStreamEndCapture", [&] {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    std::shared_ptr<Graph> object;
    const cudaError_t error = Capture::end(*find_stream(stream, "cudaStreamEndCapture"), object);
    if (object != nullptr) *graph = static_cast<cudaGraph_t>(graphs().create(std::move(object)));
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return api("cudaStreamIsCapturing", [&] {
    const auto object = find_stream(stream, "cudaStreamIsCapturing");
    if (is_legacy(*object) && capture_forbids_legacy_stream()) {
      return cudaErrorStreamCaptureImplicit;
    }
    *status = object->capture == nullptr   ? cudaStreamCaptureStatusNone
              : object->capture->invalid() ? cudaStreamCaptureStatusInvalidated
                                           : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return with(graphs(), graph, "cudaGraphGetNodes", [&](const Graph& object) {
    if (nodes != nullptr || count == nullptr) {
      explain("cudaGraphGetNodes only counts here");
      return cudaErrorNotSupported;
    }
    *count = object.nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  return api("cudaGraphInstantiate", [&] {
    const auto object = graphs().get(graph, "cudaGraphInstantiate");
    if (executable == nullptr || object == nullptr) return cudaErrorInvalidValue;
    *executable = static_cast<cudaGraphExec_t>(
        executable_graphs().create(std::make_shared<ExecutableGraph>(ExecutableGraph{object})));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return with(executable_graphs(), executable, "cudaGraphLaunch",
              [&](const ExecutableGraph& object) {
                ++state().counters.graph_launches;
                for (const Graph::Node& node : object.graph->nodes) {
                  const bool works = node.operation.kind != Operation::Kind::kMarker;
                  state().counters.graph_operations += works ? 1 : 0;
                }
                return launch_graph(*find_stream(stream, "cudaGraphLaunch"), object.graph);
              });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return with(executable_graphs(), executable, "cudaGraphUpload", [&](const ExecutableGraph&) {
    return issue(*find_stream(stream, "cudaGraphUpload"),
                 {"graph upload", Operation::Kind::kMarker, {}, {}});
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return with(graphs(), graph, "cudaGraphDestroy", [&](const Graph&) {
    graphs().destroy(graph, "cudaGraphDestroy");
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return with(executable_graphs(), executable, "cudaGraphExecDestroy", [&](const ExecutableGraph&) {
    executable_graphs().destroy(executable, "cudaGraphExecDestroy");
    return cudaSuccess;
  });
}

}  // extern "C"
