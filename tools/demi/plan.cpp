#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <demi/demi.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "models/command_line.h"
#include "models/training_run.h"
#include "tools/demi/commands.h"

namespace demi::tools {
namespace {

struct Request {
  std::string model = "mnist_cnn";
  std::string policy = "mixed_float16";
  std::string device = "auto";
  std::string profile;
  std::int64_t batch_size = 128;
  bool refusals = false;
  bool timeline = false;
  bool precision = false;
  std::string compare;
  std::vector<std::string> recompute;
  std::size_t memory_limit = 0;
};

/// A sample of the data the model is made for: images of 28 × 28 and 10 classes.
Dataset one_sample() {
  return Dataset(Tensor({1, 28, 28, 1}, uint8), Tensor({1}, uint8)).rescaled(1 / 255.0);
}

void print_call(std::size_t number, const PlannedCall& call, bool refusals) {
  fmt::print("{:4} {:8} {}{}{}\n", number, call.phase, call.layer, call.layer.empty() ? "" : ": ",
             call.op);
  fmt::print("     {} -> {}\n", fmt::join(call.inputs, ", "), fmt::join(call.outputs, ", "));
  const std::string launches = call.launches == 0 ? "part of a launch above"
                                                  : fmt::format("{} launch{}", call.launches,
                                                                call.launches == 1 ? "" : "es");
  fmt::print("     {}, {}, workspace {} bytes\n", call.kernel, launches, call.workspace_bytes);
  if (!refusals) return;
  for (const std::string& refused : call.refused) fmt::print("     refused {}\n", refused);
}

void print_plan(const Request& request) {
  set_global_policy(request.policy);
  Model model = models::architecture_named(request.model).build({28, 28, 1}, 10);
  const CompileOptions options = {.optimizer = Adam({.learning_rate = 1e-3}),
                                  .loss = "sparse_categorical_crossentropy",
                                  .metrics = {"accuracy"},
                                  .device = request.device,
                                  .recompute = request.recompute,
                                  .memory_limit = request.memory_limit};
  const MemoryPlanOptions plan = {.device_profile = request.profile, .data = one_sample()};
  if (!request.compare.empty()) {
    model.compile(options);
    fmt::print("{}", to_string(compare_memory(model, request.batch_size, request.compare,
                                              request.policy, plan)));
    return;
  }
  if (request.precision) {
    model.compile(options);
    fmt::print("{}", to_string(model.precision_report(request.batch_size, plan)));
    return;
  }
  const PlannedStep step =
      plan_training_step(model, one_sample(), options,
                         {.batch_size = request.batch_size, .device_profile = request.profile});
  fmt::print("One training step of {} under {}, batch {}, on {}: {} launches, of {} operations\n",
             request.model, request.policy, request.batch_size, step.device, step.launches(),
             step.calls.size());
  for (std::size_t i = 0; i < step.calls.size(); ++i) {
    print_call(i + 1, step.calls[i], request.refusals);
  }
  fmt::print("\n{}", to_string(step.memory));
  if (request.timeline) fmt::print("\n{}", format_timeline(step.memory));
  if (request.memory_limit > 0) {
    model.compile(options);
    fmt::print("The largest batch that fits into {} bytes: {}\n", request.memory_limit,
               max_batch_size(model, request.memory_limit, plan));
  }
}

}  // namespace

Command add_plan_command(CLI::App& app) {
  const auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand(
      "plan", "print the calls and the memory of one training step; runs nothing");
  models::add_model_option(*command, request->model);
  command->add_option("--policy", request->policy, "dtype policy")
      ->check(CLI::Validator(models::check_policy, "POLICY"));
  command->add_option("--batch-size", request->batch_size, "images per step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  CLI::Option* device = command->add_option("--device", request->device, "auto, cpu or cuda:N")
                            ->check(CLI::Validator(models::check_device, "NAME"));
  command
      ->add_option("--device-profile", request->profile,
                   "a GPU that need not be here: t4, a100, rtx4090, h100, h200, b200")
      ->excludes(device);
  CLI::Option* refusals = command->add_flag("--refusals", request->refusals,
                                            "print the kernels that were passed over, and why");
  CLI::Option* timeline =
      command->add_flag("--timeline", request->timeline, "print the live bytes at every call");
  CLI::Option* compare =
      command
          ->add_option("--compare", request->compare,
                       "print the memory under this policy and --policy side by side, and why")
          ->check(CLI::Validator(models::check_policy, "POLICY"))
          ->excludes(refusals)
          ->excludes(timeline);
  command
      ->add_flag(
          "--precision", request->precision,
          "print in which precision every operation computes, on what, what stays in float32 "
          "and why, and hints")
      ->excludes(refusals)
      ->excludes(timeline)
      ->excludes(compare);
  command->add_option("--recompute", request->recompute,
                      "layers whose results are computed again for the backward half, or auto");
  command->add_option("--memory-limit", request->memory_limit,
                      "bytes that the model may take; prints the largest batch that fits");
  return {command, [request] {
            print_plan(*request);
            return 0;
          }};
}

}  // namespace demi::tools
