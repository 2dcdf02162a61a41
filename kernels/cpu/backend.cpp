// The CPU backend: kernels of kernels/cpu on one thread pool.

#include "kernels/backend.h"

#include <unistd.h>

#include "kernels/cpu/registry.h"

namespace demi {
namespace cpu {

#define OP(family) void register_##family##_kernels(Registry& registry);
#include "src/ops/ops.def"
#undef OP

namespace {

const Registry& kernel_registry() {
  static const Registry registry = [] {
    Registry r;
#define OP(family) register_##family##_kernels(r);
#include "src/ops/ops.def"
#undef OP
    return r;
  }();
  return registry;
}

class CpuSequence final : public LaunchSequence {
 public:
  explicit CpuSequence(std::vector<Launch> launches) : launches_(std::move(launches)) {}

  void run() override {
    for (const Launch& launch : launches_) {
      launch.kernel->run({launch.inputs, launch.outputs, launch.workspace});
    }
  }

 private:
  std::vector<Launch> launches_;
};

class CpuInputs final : public InputSet {
 public:
  CpuInputs(const std::vector<std::size_t>& bytes, const Allocator& allocate)
      : offsets_(input_offsets(bytes)), memory_(allocate(offsets_.back())) {}
  [[nodiscard]] void* host(std::size_t index) override { return address(index); }
  [[nodiscard]] void* address(std::size_t index) const override {
    return static_cast<char*>(memory_->address()) + offsets_.at(index);
  }
  void upload() override {}
  void release() override {}

 private:
  std::vector<std::size_t> offsets_;
  std::shared_ptr<DeviceMemory> memory_;
};

class CpuReadback final : public Readback {
 public:
  explicit CpuReadback(std::shared_ptr<const DeviceMemory> memory)
      : memory_(std::move(memory)), copy_(memory_->bytes()) {}
  void start() override { memory_->read(copy_.data(), 0, copy_.size()); }
  [[nodiscard]] bool is_ready() override { return true; }
  [[nodiscard]] const std::byte* bytes() const override { return copy_.data(); }

 private:
  std::shared_ptr<const DeviceMemory> memory_;
  std::vector<std::byte> copy_;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads) : pool_(threads) {}

  [[nodiscard]] std::string name() const override { return "cpu"; }

  [[nodiscard]] Capabilities capabilities() const override {
    return {.conv2d_bias_activation = true,
            .conv2d_max_pool = true,
            .conv2d_backward_pooled = true,
            .matmul_bias_activation = true,
            .batch_norm_relu = true,
            .max_pool_relu = true};
  }

  [[nodiscard]] DeviceMemoryInfo memory_info() const override {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return {.total = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page,
            .free = static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * page,
            .pci_bus_id = ""};
  }

  [[nodiscard]] std::shared_ptr<DeviceMemory> allocate(std::size_t bytes,
                                                       const std::string&) override {
    return allocate_host_memory(bytes, name());
  }

  [[nodiscard]] std::unique_ptr<InputSet> allocate_inputs(const std::vector<std::size_t>& bytes,
                                                          const Allocator& allocate) override {
    return std::make_unique<CpuInputs>(bytes, allocate);
  }

  [[nodiscard]] std::unique_ptr<Readback> make_readback(
      std::shared_ptr<const DeviceMemory> memory) override {
    return std::make_unique<CpuReadback>(std::move(memory));
  }

  [[nodiscard]] KernelSelection select(const KernelRequest& request) override {
    return kernel_registry().select(request, pool_);
  }

  [[nodiscard]] std::unique_ptr<LaunchSequence> sequence(std::vector<Launch> launches) override {
    return std::make_unique<CpuSequence>(std::move(launches));
  }

  void synchronize() override {}

 private:
  ThreadPool pool_;
};

}  // namespace
}  // namespace cpu

std::shared_ptr<Backend> make_cpu_backend(int threads) {
  return std::make_shared<cpu::CpuBackend>(threads > 0 ? threads : cpu::default_thread_count());
}

}  // namespace demi
