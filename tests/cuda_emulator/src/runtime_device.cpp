// The runtime's functions for the device, kernels and errors.

#include <algorithm>
#include <cstring>

#include "tests/cuda_emulator/src/api.h"
#include "tests/cuda_emulator/src/device_profile.h"
#include "tests/cuda_emulator/src/launch_limits.h"
#include "tests/cuda_emulator/src/memory.h"

using namespace cuda_emulator;

namespace {

void describe(const DeviceProfile& device, cudaDeviceProp& p) {
  p = {};
  std::strncpy(p.name, device.name.c_str(), sizeof(p.name) - 1);
  p.major = device.capability / 10;
  p.minor = device.capability % 10;
  p.multiProcessorCount = device.multiprocessors;
  p.totalGlobalMem = device.memory_bytes;
  p.l2CacheSize = device.l2_bytes;
  p.sharedMemPerBlock = device.shared_per_block;
  p.sharedMemPerBlockOptin = device.shared_per_block_optin;
  p.reservedSharedMemPerBlock = device.reserved_shared_per_block;
  p.sharedMemPerMultiprocessor = device.shared_per_block_optin + device.reserved_shared_per_block;
  p.regsPerBlock = device.registers_per_block;
  p.regsPerMultiprocessor = device.registers_per_multiprocessor;
  p.warpSize = 32;
  p.maxThreadsPerBlock = device.threads_per_block;
  p.maxThreadsPerMultiProcessor = device.threads_per_multiprocessor;
  p.maxBlocksPerMultiProcessor = device.blocks_per_multiprocessor;
  for (int i = 0; i < 3; ++i) {
    p.maxThreadsDim[i] = device.max_block[i];
    p.maxGridSize[i] = device.max_grid[i];
  }
  p.asyncEngineCount = 2;
  p.concurrentKernels = 1;
  p.unifiedAddressing = 1;
  p.canMapHostMemory = 1;
  p.textureAlignment = 512;
  p.memPitch = 2147483647;
}

/// -1 for attributes that are not modelled.
int attribute(const DeviceProfile& device, cudaDeviceAttr which) {
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor:
      return device.capability / 10;
    case cudaDevAttrComputeCapabilityMinor:
      return device.capability % 10;
    case cudaDevAttrMultiProcessorCount:
      return device.multiprocessors;
    case cudaDevAttrMaxThreadsPerBlock:
      return device.threads_per_block;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return device.threads_per_multiprocessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return device.blocks_per_multiprocessor;
    case cudaDevAttrMaxBlockDimX:
      return device.max_block[0];
    case cudaDevAttrMaxBlockDimY:
      return device.max_block[1];
    case cudaDevAttrMaxBlockDimZ:
      return device.max_block[2];
    case cudaDevAttrMaxGridDimX:
      return device.max_grid[0];
    case cudaDevAttrMaxGridDimY:
      return device.max_grid[1];
    case cudaDevAttrMaxGridDimZ:
      return device.max_grid[2];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(device.shared_per_block);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(device.shared_per_block_optin);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return static_cast<int>(device.reserved_shared_per_block);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(device.shared_per_block_optin + device.reserved_shared_per_block);
    case cudaDevAttrMaxRegistersPerBlock:
      return device.registers_per_block;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return device.registers_per_multiprocessor;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrL2CacheSize:
      return device.l2_bytes;
    case cudaDevAttrClockRate:
      return device.clock_khz;
    case cudaDevAttrMemoryClockRate:
      return device.memory_clock_khz;
    case cudaDevAttrGlobalMemoryBusWidth:
      return 5120;  // profiles leave it out
    case cudaDevAttrAsyncEngineCount:
      return 2;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
      return 1;
    case cudaDevAttrIntegrated:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrTccDriver:
    case cudaDevAttrCooperativeLaunch:
      return 0;
    default:
      return -1;
  }
}

struct ErrorText {
  const char* name;
  const char* text;
};

ErrorText describe(cudaError_t error) {
#define ERROR(code, text) \
  case code:              \
    return {              \
#code, text         \
    }
  switch (error) {
    ERROR(cudaSuccess, "no error");
    ERROR(cudaErrorInvalidValue, "invalid argument");
    ERROR(cudaErrorMemoryAllocation, "out of memory");
    ERROR(cudaErrorInitializationError, "initialization error");
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument");
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy");
    ERROR(cudaErrorInsufficientDriver,
          "CUDA driver version is insufficient for CUDA runtime version");
    ERROR(cudaErrorInvalidDeviceFunction, "invalid device function");
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected");
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal");
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle");
    ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state");
    ERROR(cudaErrorNotReady, "device not ready");
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered");
    ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch");
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure");
    ERROR(cudaErrorNotPermitted, "operation not permitted");
    ERROR(cudaErrorNotSupported, "operation not supported");
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing");
    ERROR(cudaErrorStreamCaptureInvalidated,
          "operation failed due to a previous error during capture");
    ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate captures");
    ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began");
    ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work");
    ERROR(cudaErrorStreamCaptureIsolation,
          "dependency created on uncaptured work in another stream");
    ERROR(cudaErrorStreamCaptureImplicit,
          "operation would make the legacy stream depend on a capturing blocking stream");
    ERROR(cudaErrorCapturedEvent,
          "operation not permitted on an event last recorded in a capturing stream");
    ERROR(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread");
    ERROR(cudaErrorUnknown, "unknown error");
    default:
      return {"unrecognized error code", "unrecognized error code"};
  }
#undef ERROR
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return api("cudaGetDeviceCount", [&] {
    *count = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api("cudaGetDevice", [&] {
    *device = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api("cudaSetDevice", [&] { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api("cudaGetDeviceProperties", [&] {
    if (device != 0) return cudaErrorInvalidDevice;
    describe(device_profile(), *properties);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return api("cudaDeviceGetAttribute", [&] {
    if (device != 0) return cudaErrorInvalidDevice;
    const int found = attribute(device_profile(), which);
    if (found < 0) {
      explain("device attribute " + std::to_string(which) + " is not emulated");
      return cudaErrorInvalidValue;
    }
    *value = found;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api("cudaDeviceGetStreamPriorityRange", [&] {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return api("cudaDriverGetVersion", [&] {
    *version = device_profile().driver_version;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return api("cudaRuntimeGetVersion", [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  return api("cudaFuncSetAttribute", [&] {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (value < 0) return cudaErrorInvalidValue;
    if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    return set_dynamic_limit(function, static_cast<std::size_t>(value));
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, size_t shared_bytes) {
  return api("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&] {
    const DeviceProfile& device = device_profile();
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (threads <= 0 || threads > device.threads_per_block) return cudaErrorInvalidValue;
    // Registers and static shared memory are unknown here.
    const std::size_t shared = shared_bytes + device.reserved_shared_per_block;
    const std::size_t all = device.shared_per_block_optin + device.reserved_shared_per_block;
    *blocks =
        std::min({device.blocks_per_multiprocessor, device.threads_per_multiprocessor / threads,
                  static_cast<int>(all / shared)});
    return cudaSuccess;
  });
}

cudaError_t cudaGetLastError() {
  const std::lock_guard lock(mutex());
  return last_error(true);
}

cudaError_t cudaPeekAtLastError() {
  const std::lock_guard lock(mutex());
  return last_error(false);
}

const char* cudaGetErrorName(cudaError_t error) {
  return describe(error).name;
}

const char* cudaGetErrorString(cudaError_t error) {
  return describe(error).text;
}

}  // extern "C"
