// cudnnBackendExecute: what it is given is checked, then the arithmetic is queued on the stream.
#include <cstdint>
#include <string>

#include "tests/cuda_emulator/src/cudnn_program.h"
#include "tests/cuda_emulator/src/cudnn_real.h"
#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {
namespace {

constexpr std::uintptr_t kWorkspaceAlignment = 256;

struct Range {
  std::string name;
  const std::byte* begin;
  std::size_t bytes;

  [[nodiscard]] bool overlaps(const Range& other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

/// What cuDNN would report. What it cannot notice, and a GPU would do something undefined with, is
/// fatal.
class Execution {
 public:
  Execution(const Record& plan, cudnnBackendDescriptor_t plan_descriptor, const Record& graph,
            const Record& pack)
      : program_(read_program(graph)), tensor_cores_(plan.tensor_cores) {
    workspace_ = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
    std::int64_t count = 0;
    (void)DEMI_REAL_CUDNN(cudnnBackendGetAttribute)(plan_descriptor,
                                                    CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                    CUDNN_TYPE_INT64, 1, &count, &workspace_bytes_);
    const auto ids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto pointers = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (std::size_t i = 0; i < ids.size() && i < pointers.size(); ++i) {
      addresses_[ids[i]] = pointers[i];
    }
  }

  cudnnStatus_t check() const {
    for (const auto& [id, tensor] : program_.tensors) {
      if (tensor.is_virtual) continue;
      const auto found = addresses_.find(id);
      const std::string name = "tensor " + std::to_string(id);
      if (found == addresses_.end()) {
        return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "the variant pack lacks " + name);
      }
      if (found->second == nullptr) {
        return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, name + " has a null address");
      }
      const auto address = reinterpret_cast<std::uintptr_t>(found->second);
      if (address % static_cast<std::uintptr_t>(tensor.alignment) != 0) {
        return cudnn_failure(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                             name + " is not aligned to the " + std::to_string(tensor.alignment) +
                                 " bytes that it declares");
      }
    }
    if (workspace_bytes_ > 0 && workspace_ == nullptr) {
      return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "the plan needs " + std::to_string(workspace_bytes_) +
                               " bytes of workspace, the variant pack has none");
    }
    check_memory();
    return CUDNN_STATUS_SUCCESS;
  }

  void run() const {
    if (workspace_bytes_ > 0) poison(workspace_, static_cast<std::size_t>(workspace_bytes_));
    run_program(program_, addresses_, tensor_cores_);
    if (workspace_bytes_ > 0) poison(workspace_, static_cast<std::size_t>(workspace_bytes_));
  }

 private:
  void check_memory() const {
    std::vector<Range> ranges;
    for (const auto& [id, tensor] : program_.tensors) {
      if (tensor.is_virtual) continue;
      ranges.push_back({"tensor " + std::to_string(id),
                        static_cast<const std::byte*>(addresses_.at(id)), tensor.bytes()});
    }
    if (workspace_bytes_ > 0) {
      ranges.push_back({"the workspace", static_cast<const std::byte*>(workspace_),
                        static_cast<std::size_t>(workspace_bytes_)});
      if (reinterpret_cast<std::uintptr_t>(workspace_) % kWorkspaceAlignment != 0) {
        fatal("cudnnBackendExecute: the workspace is not aligned to 256 bytes");
      }
    }
    for (const Range& range : ranges) {
      if (!is_device_range(range.begin, range.bytes)) {
        fatal("cudnnBackendExecute: " + range.name + " needs " + std::to_string(range.bytes) +
              " bytes of one device allocation; from its address there are " +
              std::to_string(device_bytes_from(range.begin)));
      }
    }
    check_overlaps(ranges);
  }

  /// Results of pointwise operations may take the place of their operands.
  void check_overlaps(const std::vector<Range>& ranges) const {
    for (const Range& a : ranges) {
      for (const Range& b : ranges) {
        if (&a == &b || !a.overlaps(b)) continue;
        const bool with_workspace = b.name == "the workspace";
        bool with_result = false;
        for (const GraphOperation& operation : program_.operations) {
          if (operation.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) continue;
          for (const std::int64_t input : operation.inputs) {
            if (a.name != "tensor " + std::to_string(input)) continue;
            for (const auto& [id, tensor] : program_.tensors) {
              with_result |= b.name == "tensor " + std::to_string(id) && program_.is_output(id);
            }
          }
        }
        if (with_workspace || with_result) {
          fatal("cudnnBackendExecute: " + a.name + " overlaps " + b.name);
        }
      }
    }
  }

  Program program_;
  bool tensor_cores_;
  void* workspace_;
  std::int64_t workspace_bytes_ = 0;
  std::map<std::int64_t, void*> addresses_;
};

}  // namespace
}  // namespace cuda_emulator

using namespace cuda_emulator;

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const Call call("cudnnBackendExecute");
  clear_cudnn_failure();
  if (call.error() != cudaSuccess) {
    return cudnn_failure(CUDNN_STATUS_EXECUTION_FAILED_CUDART, cudaGetErrorString(call.error()));
  }
  const auto owner = find_cudnn_handle(handle, call.name());
  if (owner == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle is null");
  }
  const auto plan_record = find_record(plan, call.name());
  const auto pack_record = find_record(pack, call.name());
  if (plan_record->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !plan_record->finalized) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "expected a finalized plan");
  }
  if (pack_record->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || !pack_record->finalized) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "expected a finalized variant pack");
  }
  const auto graph = graph_of(plan_record);
  if (graph == nullptr) fatal("cudnnBackendExecute: a plan made from JSON is not emulated");
  auto execution = std::make_shared<Execution>(*plan_record, plan, *graph, *pack_record);
  const cudnnStatus_t status = execution->check();
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const cudaError_t error =
      enqueue(owner->stream, "cudnnBackendExecute", [execution] { execution->run(); });
  if (error == cudaSuccess) return CUDNN_STATUS_SUCCESS;
  return cudnn_failure(CUDNN_STATUS_EXECUTION_FAILED_CUDART, cudaGetErrorString(error));
}
