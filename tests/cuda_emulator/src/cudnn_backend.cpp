// The descriptors of cuDNN's graph API. The installed library makes, checks and finalizes them, and
// plans for the described device wherever the caller gave a handle; what is set is recorded for
// cudnnBackendExecute.
#include <algorithm>
#include <string>

#include "cuda_emulator/library_control.h"
#include "tests/cuda_emulator/src/cudnn_real.h"
#include "tests/cuda_emulator/src/cudnn_records.h"
#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {
namespace {

/// By the installed library's descriptor. Never destroyed: descriptors may outlive static objects.
std::map<cudnnBackendDescriptor_t, std::shared_ptr<Record>>& records() {
  static auto* const map = [] {
    auto* created = new std::map<cudnnBackendDescriptor_t, std::shared_ptr<Record>>;
    internal::register_leak_counter("cuDNN backend descriptor",
                                    [created] { return created->size(); });
    return created;
  }();
  return *map;
}

int plans_to_refuse = 0;

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_FRACTION:
      return 16;
    default:
      return 4;  // float, int32 and enumerations
  }
}

void record_attribute(Record& record, Record::Name name, cudnnBackendAttributeType_t type,
                      std::int64_t count, const void* values, const char* call) {
  Attribute attribute = {type, count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* descriptors = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < count; ++i) {
      attribute.descriptors.push_back(find_record(descriptors[i], call));
    }
  } else {
    const auto* bytes = static_cast<const std::byte*>(values);
    attribute.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
  }
  record.attributes[name] = std::move(attribute);
}

cudnnStatus_t set_device_json(cudnnBackendDescriptor_t descriptor) {
  const std::string& json = device_json();
  return DEMI_REAL_CUDNN(cudnnBackendSetAttribute)(
      descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
      static_cast<std::int64_t>(json.size()), json.data());
}

/// The installed library's description of the emulated device; null if it does not take it.
cudnnBackendDescriptor_t described_device() {
  static auto& known = *new std::map<std::string, cudnnBackendDescriptor_t>;
  const auto found = known.find(device_json());
  if (found != known.end()) return found->second;
  cudnnBackendDescriptor_t descriptor = nullptr;
  cudnnStatus_t status = DEMI_REAL_CUDNN(cudnnBackendCreateDescriptor)(
      CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &descriptor);
  if (status == CUDNN_STATUS_SUCCESS) status = set_device_json(descriptor);
  if (status == CUDNN_STATUS_SUCCESS) status = DEMI_REAL_CUDNN(cudnnBackendFinalize)(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return nullptr;
  return known[device_json()] = descriptor;
}

cudnnStatus_t set_described_device(cudnnBackendDescriptor_t descriptor, Record::Name name) {
  cudnnBackendDescriptor_t device = described_device();
  if (device == nullptr) return CUDNN_STATUS_INTERNAL_ERROR;
  return DEMI_REAL_CUDNN(cudnnBackendSetAttribute)(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                   1, &device);
}

/// Where the caller gives a handle, the installed library, which has none, is given the device.
cudnnStatus_t set_handle(cudnnBackendDescriptor_t descriptor, Record& record, Record::Name name,
                         std::int64_t count, const void* values) {
  const char* const call = "cudnnBackendSetAttribute";
  if (values == nullptr || count != 1) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "expected one handle");
  }
  if (record.finalized) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized already");
  }
  cudnnHandle_t handle = *static_cast<const cudnnHandle_t*>(values);
  if (find_cudnn_handle(handle, call) == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle is null");
  }
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (record.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    status = set_described_device(descriptor, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  } else if (record.type == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) {
    status = set_device_json(descriptor);
  } else if (record.type != CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "this descriptor takes no handle");
  }
  if (status == CUDNN_STATUS_SUCCESS) {
    record_attribute(record, name, CUDNN_TYPE_HANDLE, 1, values, call);
  }
  return status;
}

/// Whether the engine of a configuration uses tensor cores.
bool engine_uses_tensor_cores(cudnnBackendDescriptor_t plan) {
  const auto get = DEMI_REAL_CUDNN(cudnnBackendGetAttribute);
  const auto create = DEMI_REAL_CUDNN(cudnnBackendCreateDescriptor);
  cudnnBackendDescriptor_t config = nullptr, engine = nullptr;
  (void)create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config);
  (void)create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
  std::int64_t count = 0;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const bool known =
      get(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
          &config) == CUDNN_STATUS_SUCCESS &&
      get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) ==
          CUDNN_STATUS_SUCCESS &&
      get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) == CUDNN_STATUS_SUCCESS;
  const bool uses = known && std::count(notes, notes + count, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) > 0;
  (void)DEMI_REAL_CUDNN(cudnnBackendDestroyDescriptor)(engine);
  (void)DEMI_REAL_CUDNN(cudnnBackendDestroyDescriptor)(config);
  return uses;
}

}  // namespace

double Record::scalar(Name name, double fallback) const {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return fallback;
  return found->second.type == CUDNN_TYPE_DOUBLE ? value<double>(name, fallback)
                                                 : value<float>(name, 0);
}

std::shared_ptr<Record> Record::descriptor(Name name) const {
  const auto found = attributes.find(name);
  if (found == attributes.end() || found->second.descriptors.empty()) return nullptr;
  return found->second.descriptors.front();
}

std::shared_ptr<Record> find_record(cudnnBackendDescriptor_t descriptor, const char* call) {
  const auto found = records().find(descriptor);
  if (found == records().end()) {
    fatal(std::string(call) + ": the backend descriptor was destroyed before, or never created");
  }
  return found->second;
}

bool real_cudnn_takes_device() {
  return described_device() != nullptr;
}

std::shared_ptr<Record> graph_of(const std::shared_ptr<Record>& record) {
  if (record == nullptr || record->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) return record;
  if (record->filled_for != nullptr) return record->filled_for;
  switch (record->type) {
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return record->descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      return record->descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      return graph_of(record->descriptor(CUDNN_ATTR_ENGINECFG_ENGINE));
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return graph_of(record->descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
    default:
      return nullptr;
  }
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

void demi_emulator_refuse_plans(int count) {
  const std::lock_guard lock(mutex());
  plans_to_refuse = count;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  const std::lock_guard lock(mutex());
  clear_cudnn_failure();
  if (!has_real_cudnn()) return no_real_cudnn("cudnnBackendCreateDescriptor");
  const cudnnStatus_t status = DEMI_REAL_CUDNN(cudnnBackendCreateDescriptor)(type, descriptor);
  if (status == CUDNN_STATUS_SUCCESS) {
    auto record = std::make_shared<Record>();
    record->type = type;
    records()[*descriptor] = std::move(record);
  }
  return status;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(mutex());
  clear_cudnn_failure();
  if (descriptor == nullptr) return CUDNN_STATUS_SUCCESS;
  (void)find_record(descriptor, "cudnnBackendDestroyDescriptor");
  records().erase(descriptor);
  return DEMI_REAL_CUDNN(cudnnBackendDestroyDescriptor)(descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  const std::lock_guard lock(mutex());
  clear_cudnn_failure();
  const char* const call = "cudnnBackendSetAttribute";
  const std::shared_ptr<Record> record = find_record(descriptor, call);
  if (type == CUDNN_TYPE_HANDLE) return set_handle(descriptor, *record, name, count, values);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && values != nullptr) {
    const auto* used = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (int64_t i = 0; i < count; ++i) (void)find_record(used[i], call);
  }
  const cudnnStatus_t status =
      name == CUDNN_ATTR_DEVICEPROP_DEVICE_ID
          ? set_device_json(descriptor)
          : DEMI_REAL_CUDNN(cudnnBackendSetAttribute)(descriptor, name, type, count, values);
  if (status == CUDNN_STATUS_SUCCESS) {
    record_attribute(*record, name, type, count, values, call);
  }
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t limit,
                                       int64_t* count, void* values) {
  const std::lock_guard lock(mutex());
  clear_cudnn_failure();
  const std::shared_ptr<Record> record = find_record(descriptor, "cudnnBackendGetAttribute");
  if (type == CUDNN_TYPE_HANDLE) {
    if (!record->has(name)) return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "no handle was set");
    if (count != nullptr) *count = 1;
    if (limit > 0 && values != nullptr) {
      *static_cast<cudnnHandle_t*>(values) = record->value<cudnnHandle_t>(name, nullptr);
    }
    return CUDNN_STATUS_SUCCESS;
  }
  int64_t filled = 0;
  const cudnnStatus_t status =
      DEMI_REAL_CUDNN(cudnnBackendGetAttribute)(descriptor, name, type, limit, &filled, values);
  if (count != nullptr) *count = filled;
  if (status == CUDNN_STATUS_SUCCESS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR &&
      values != nullptr) {
    const auto* results = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (int64_t i = 0; i < std::min(limit, filled); ++i) {
      const auto found = records().find(results[i]);
      if (found == records().end()) continue;
      found->second->filled_for = graph_of(record);
      found->second->finalized = true;
    }
  }
  return status;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(mutex());
  clear_cudnn_failure();
  const std::shared_ptr<Record> record = find_record(descriptor, "cudnnBackendFinalize");
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (record->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      !record->has(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)) {
    status = set_described_device(descriptor, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  } else if (record->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
             !record->has(CUDNN_ATTR_ENGINE_DEVICEPROP)) {
    status = set_described_device(descriptor, CUDNN_ATTR_ENGINE_DEVICEPROP);
  }
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const bool is_plan = record->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  if (is_plan && plans_to_refuse > 0) {
    --plans_to_refuse;
    return cudnn_failure(CUDNN_STATUS_NOT_SUPPORTED, "refused on request");
  }
  status = DEMI_REAL_CUDNN(cudnnBackendFinalize)(descriptor);
  if (status == CUDNN_STATUS_SUCCESS) {
    record->finalized = true;
    if (is_plan) record->tensor_cores = engine_uses_tensor_cores(descriptor);
  }
  return status;
}
