#include "models/command_line.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <numeric>
#include <stdexcept>

#include <demi/demi.h>
#include <CLI/CLI.hpp>

#include "models/training_run.h"

namespace demi::models {
namespace {

/// Number of insertions, deletions and replacements that turn `a` into `b`.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string suggestion(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string best = closest(name, candidates);
  return best.empty() ? "" : " Did you mean '" + best + "'?";
}

/// What `app` itself takes: options and subcommands.
std::vector<std::string> known_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

/// Throws std::invalid_argument, with a suggestion, if `app` or the subcommand that was given was
/// left with arguments it does not know.
void refuse_unknown(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) refuse_unknown(*command);
  if (app.remaining_size() == 0) return;
  const std::string first = app.remaining().front();
  const std::string name = first.substr(0, first.find('='));
  throw std::invalid_argument("unknown argument '" + first + "'." +
                              suggestion(name, known_names(app)));
}

/// What CLI11 says, on one line.
std::string describe(const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Parses; for arguments that are not known, throws std::invalid_argument with a suggestion.
void parse(CLI::App& app, int argc, const char* const* argv) {
  app.allow_extras();
  for (CLI::App* command : app.get_subcommands({})) command->allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError&) {
    // What is missing is probably what was misspelled.
    refuse_unknown(app);
    throw;
  }
  refuse_unknown(app);
}

}  // namespace

std::string closest(const std::string& name, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string check_choice(const std::string& name, const std::vector<std::string>& candidates) {
  if (std::find(candidates.begin(), candidates.end(), name) != candidates.end()) return "";
  std::string known;
  for (const std::string& candidate : candidates) {
    known += (known.empty() ? "'" : ", '") + candidate + "'";
  }
  return "expected one of " + known + ". Received: '" + name + "'." + suggestion(name, candidates);
}

std::string check_device(const std::string& name) {
  try {
    set_device(name);
    return "";
  } catch (const DeviceError&) {
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

void add_model_option(CLI::App& app, std::string& model) {
  std::vector<std::string> names;
  std::string all;
  for (const Architecture& architecture : architectures()) {
    all += (names.empty() ? "" : ", ") + architecture.name;
    names.push_back(architecture.name);
  }
  app.add_option("--model", model, all)
      ->check(CLI::Validator([names](const std::string& name) { return check_choice(name, names); },
                             "NAME"));
}

std::string check_policy(const std::string& name) {
  try {
    (void)DTypePolicy(name);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

int run_program(CLI::App& app, int argc, const char* const* argv,
                const std::function<void()>& body) {
  try {
    parse(app, argc, argv);
  } catch (const CLI::Success&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError& error) {
    std::cerr << app.get_name() << ": " << describe(error) << '\n';
    return 2;
  } catch (const std::invalid_argument& error) {
    std::cerr << app.get_name() << ": " << error.what() << '\n';
    return 2;
  }
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << app.get_name() << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace demi::models
