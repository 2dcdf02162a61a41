// demi: what devices there are, what a training step does on one, in what two runs differ.
#include <CLI/CLI.hpp>

#include "models/command_line.h"
#include "tools/demi/commands.h"

int main(int argc, char** argv) {
  CLI::App app("Answers questions about devices, plans and runs.", "demi");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  const demi::tools::Command commands[] = {demi::tools::add_devices_command(app),
                                           demi::tools::add_plan_command(app),
                                           demi::tools::add_diff_command(app)};
  int status = 0;
  const int failure = demi::models::run_program(app, argc, argv, [&] {
    for (const demi::tools::Command& command : commands) {
      if (command.subcommand->parsed()) status = command.run();
    }
  });
  return failure != 0 ? failure : status;
}
