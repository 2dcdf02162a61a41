// How the programs take options and report mistakes: one clear line and a status that is not zero.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace demi::models {

/// Parses the arguments with `app`, then calls `body`. Returns the exit status: 0; 0 after --help;
/// 2 for a mistake in the arguments, among them names that are not known, for which the closest
/// known one is suggested; 1 for anything that `body` throws. Errors are one line on stderr.
[[nodiscard]] int run_program(CLI::App& app, int argc, const char* const* argv,
                              const std::function<void()>& body);

/// The candidate that `name` was probably meant to be, "" if none is close.
[[nodiscard]] std::string closest(const std::string& name,
                                  const std::vector<std::string>& candidates);

/// "" if `name` is one of `candidates`, else what is wrong, with a suggestion: a CLI11 validator.
[[nodiscard]] std::string check_choice(const std::string& name,
                                       const std::vector<std::string>& candidates);

/// The same for devices; one that can be used becomes demi::current_device(). That it is missing is
/// no mistake in the arguments: whoever uses it reports that.
[[nodiscard]] std::string check_device(const std::string& name);

/// Option --model, one of architectures(), with a suggestion for any other name.
void add_model_option(CLI::App& app, std::string& model);

/// The same for dtype policies.
[[nodiscard]] std::string check_policy(const std::string& name);

}  // namespace demi::models
