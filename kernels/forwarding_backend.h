// ForwardingBackend: a device as it is, for wrappers that change one thing of it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace demi {

/// Answers every call with what `device` answers; wrappers override what they change, such as how
/// launches run (a profiler) or what passes may form (a comparison without fused kernels).
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::shared_ptr<Backend> device) : device_(std::move(device)) {}

  [[nodiscard]] std::string name() const override { return device_->name(); }
  [[nodiscard]] Capabilities capabilities() const override { return device_->capabilities(); }
  [[nodiscard]] DeviceMemoryInfo memory_info() const override { return device_->memory_info(); }
  [[nodiscard]] std::optional<DevicePeaks> peaks() const override { return device_->peaks(); }
  [[nodiscard]] std::shared_ptr<DeviceMemory> allocate(std::size_t bytes,
                                                       const std::string& purpose) override {
    return device_->allocate(bytes, purpose);
  }
  [[nodiscard]] std::unique_ptr<InputSet> allocate_inputs(const std::vector<std::size_t>& bytes,
                                                          const Allocator& allocate) override {
    return device_->allocate_inputs(bytes, allocate);
  }
  [[nodiscard]] std::size_t room_for_data() const override { return device_->room_for_data(); }
  [[nodiscard]] std::unique_ptr<Readback> make_readback(
      std::shared_ptr<const DeviceMemory> memory) override {
    return device_->make_readback(std::move(memory));
  }
  [[nodiscard]] KernelSelection select(const KernelRequest& request) override {
    return device_->select(request);
  }
  [[nodiscard]] std::unique_ptr<LaunchSequence> sequence(std::vector<Launch> launches) override {
    return device_->sequence(std::move(launches));
  }
  [[nodiscard]] std::vector<int> launch_counts(std::span<Kernel* const> kernels) const override {
    return device_->launch_counts(kernels);
  }
  void synchronize() override { device_->synchronize(); }

 private:
  std::shared_ptr<Backend> device_;
};

}  // namespace demi
