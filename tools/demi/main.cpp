// demi: what devices there are, and what a training step does on one.
#include <CLI/CLI.hpp>

#include "models/command_line.h"
#include "tools/demi/commands.h"

int main(int argc, char** argv) {
  CLI::App app("Answers questions about devices and plans.", "demi");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  const demi::tools::Command commands[] = {demi::tools::add_devices_command(app),
                                           demi::tools::add_plan_command(app)};
  return demi::models::run_program(app, argc, argv, [&] {
    for (const demi::tools::Command& command : commands) {
      if (command.subcommand->parsed()) command.run();
    }
  });
}
