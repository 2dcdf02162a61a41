// Devices: which there are, which is used, and how float32 is computed on a GPU.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace demi {

struct DeviceInfo {
  std::string name;         ///< what set_device takes: "cpu", "cuda:0"
  std::string description;  ///< "NVIDIA H200", "x86-64, AVX2, 2 threads"
  std::size_t memory_bytes = 0;
  std::size_t free_bytes = 0;
  int compute_capability = 0;  ///< 10 · major + minor, 0 for the CPU
  int multiprocessors = 0;
  int driver_version = 0;  ///< as CUDA counts: 13000 is 13.0
  bool tensor_cores = false;
  bool float16 = false;  ///< float16 in hardware (CPU: conversion to and from float32)
  bool bfloat16 = false;
};

/// The CPU and every GPU that can be used.
[[nodiscard]] std::vector<DeviceInfo> devices();

/// Versions of the GPU libraries, empty without them.
[[nodiscard]] std::string gpu_library_versions();
/// Why there is no GPU among devices(): which of plugin, library, driver or device is missing.
/// Empty if there is one.
[[nodiscard]] std::string why_no_gpu();

/// The device of models that are compiled from now on, where compile() is given none: "auto" (at
/// the start: the first GPU that can be used, else the CPU), "cpu" or "cuda:N". A GPU that is not
/// there is a DeviceError here already; another name std::invalid_argument.
void set_device(std::string_view name);
[[nodiscard]] std::string current_device();

/// Whether models compiled from now on may compute float32 products on tensor cores in TF32 (8
/// exponent, 10 mantissa bits; compute capability 8.0 and up). Off at the start: float32 is then
/// strict.
void allow_tf32(bool allow);
[[nodiscard]] bool tf32_is_allowed();

}  // namespace demi
