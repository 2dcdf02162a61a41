#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/demi/commands.h"

namespace demi::tools {
namespace {

using Json = nlohmann::json;

struct Request {
  std::string a;
  std::string b;
  bool all = false;
};

Json read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read '" + path + "'.");
  try {
    return Json::parse(file);
  } catch (const Json::exception& error) {
    throw std::runtime_error("expected JSON in '" + path + "'. Received: " + error.what());
  }
}

/// Values by path, "optimizer/config/learning_rate".
Json leaves_of(const std::string& path, bool all) {
  Json json = read(path);
  // When and how long is no part of what a run is.
  if (!all && json.is_object()) json.erase("timing");
  return json.flatten();
}

std::string name_of(const std::string& pointer) {
  return pointer.empty() ? "(all)" : pointer.substr(1);
}

/// Prints a line for each value that only one of them has or that differs; returns how many.
int print_differences(const Request& request) {
  const Json a = leaves_of(request.a, request.all);
  const Json b = leaves_of(request.b, request.all);
  int count = 0;
  Json keys = Json::object();
  for (const auto& [key, value] : a.items()) keys[key];
  for (const auto& [key, value] : b.items()) keys[key];
  for (const auto& [key, unused] : keys.items()) {
    const bool in_a = a.contains(key);
    const bool in_b = b.contains(key);
    if (in_a && in_b && a[key] == b[key]) continue;
    ++count;
    const auto text = [](const Json& side, const std::string& name, bool is_there) {
      return is_there ? side[name].dump() : std::string("(nothing)");
    };
    fmt::print("{}: {} -> {}\n", name_of(key), text(a, key, in_a), text(b, key, in_b));
  }
  return count;
}

int diff(const Request& request) {
  try {
    return print_differences(request) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "demi diff: {}\n", error.what());
    return 2;
  }
}

}  // namespace

Command add_diff_command(CLI::App& app) {
  const auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand(
      "diff",
      "print in what two run manifests, or other JSON files, differ; status 0: in nothing, 1: they "
      "differ, 2: an error");
  command->add_option("a", request->a, "the first file")->required();
  command->add_option("b", request->b, "the second file")->required();
  command->add_flag("--all", request->all,
                    "also compare when the runs were and how long they took");
  return {command, [request] { return diff(*request); }};
}

}  // namespace demi::tools
