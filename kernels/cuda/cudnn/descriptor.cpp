#include "kernels/cuda/cudnn/descriptor.h"

#include <demi/error.h>

namespace demi::cuda::cudnn {
namespace {

[[noreturn]] void fail(const char* action, int what, cudnnStatus_t status) {
  throw DeviceError("[cudnn] " + std::string(action) + " " + std::to_string(what) +
                    " failed: " + explain(status) + ".");
}

}  // namespace

std::string explain(cudnnStatus_t status) {
  char details[512] = "";
  cudnnGetLastErrorString(details, sizeof(details));
  std::string text = cudnnGetErrorString(status);
  std::string reason;
  for (const char c : std::string_view(details)) {
    const bool blank = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (!blank) reason += c;
    if (blank && !reason.empty() && reason.back() != ' ') reason += ' ';
  }
  while (!reason.empty() && (reason.back() == ' ' || reason.back() == '.')) reason.pop_back();
  return reason.empty() ? text : text + ", " + reason;
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  const cudnnStatus_t status = cudnnBackendCreateDescriptor(type, &handle_);
  if (status != CUDNN_STATUS_SUCCESS) fail("creating a descriptor of type", type, status);
}

Descriptor::~Descriptor() {
  if (handle_ != nullptr) (void)cudnnBackendDestroyDescriptor(handle_);
}

void Descriptor::set(Name name, const std::vector<Descriptor>& values) {
  std::vector<cudnnBackendDescriptor_t> handles;
  handles.reserve(values.size());
  for (const Descriptor& value : values) handles.push_back(value.handle_);
  set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(handles.size()),
          handles.data());
}

void Descriptor::set_raw(Name name, cudnnBackendAttributeType_t type, std::int64_t count,
                         const void* values) {
  const cudnnStatus_t status = cudnnBackendSetAttribute(handle_, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) fail("setting attribute", name, status);
}

bool Descriptor::finalize(std::string& reason) {
  const cudnnStatus_t status = cudnnBackendFinalize(handle_);
  if (status != CUDNN_STATUS_SUCCESS) reason = explain(status);
  return status == CUDNN_STATUS_SUCCESS;
}

void Descriptor::finalize() {
  std::string reason;
  if (!finalize(reason)) throw DeviceError("[cudnn] finalizing a descriptor failed: " + reason);
}

std::int64_t Descriptor::get_raw(Name name, cudnnBackendAttributeType_t type, std::int64_t limit,
                                 void* values) const {
  std::int64_t count = 0;
  const cudnnStatus_t status = cudnnBackendGetAttribute(handle_, name, type, limit, &count, values);
  if (status != CUDNN_STATUS_SUCCESS) fail("reading attribute", name, status);
  return count < limit ? count : limit;
}

std::vector<Descriptor> Descriptor::descriptors(Name name, cudnnBackendDescriptorType_t type,
                                                std::int64_t limit) const {
  std::vector<Descriptor> list;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < limit; ++i) {
    list.emplace_back(type);
    handles.push_back(list.back().handle_);
  }
  const std::int64_t count = get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, limit, handles.data());
  list.erase(list.begin() + count, list.end());
  return list;
}

std::int64_t Descriptor::count(Name name, cudnnBackendAttributeType_t type) const {
  std::int64_t count = 0;
  const cudnnStatus_t status = cudnnBackendGetAttribute(handle_, name, type, 0, &count, nullptr);
  if (status != CUDNN_STATUS_SUCCESS) fail("counting attribute", name, status);
  return count;
}

}  // namespace demi::cuda::cudnn
