// The commands of bin/demi.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace demi::tools {

/// What is run once all arguments are read, if its subcommand was given.
struct Command {
  const CLI::App* subcommand = nullptr;
  std::function<int()> run;  ///< returns the exit status
};

/// "demi devices": the devices of this machine, and why there is no GPU.
[[nodiscard]] Command add_devices_command(CLI::App& app);
/// "demi plan": calls and memory of a training step, also for a GPU that is not there.
[[nodiscard]] Command add_plan_command(CLI::App& app);
/// "demi diff": in what two run manifests differ.
[[nodiscard]] Command add_diff_command(CLI::App& app);

}  // namespace demi::tools
