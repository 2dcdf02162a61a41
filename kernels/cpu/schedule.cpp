#include <demi/ops/schedule.h>

#include "kernels/cpu/registry.h"

namespace demi::cpu {
namespace {

std::unique_ptr<Kernel> schedule_factory(const KernelRequest& request, ThreadPool&, std::string&) {
  const LearningRate rate = request.attributes.as<ops::ScheduleAttributes>().rate;
  return make_kernel("scalar", 0, [rate](const KernelArguments& arguments) {
    *arguments.output<float>(0) = static_cast<float>(rate.at(*arguments.input<std::int64_t>(0)));
  });
}

}  // namespace

void register_schedule_kernels(Registry& registry) {
  registry.add("schedule", "scalar", schedule_factory);
}

}  // namespace demi::cpu
