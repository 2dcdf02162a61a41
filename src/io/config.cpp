#include <demi/config.h>

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/core/check.h"

namespace demi {
namespace {

using Json = nlohmann::ordered_json;

/// Deep enough for every real file; keeps a hostile one from exhausting the stack.
constexpr int kMaxDepth = 200;

[[noreturn]] void refuse(const char* expected, const Config& received) {
  std::string text = received.to_json();
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  internal::fail_argument("config", fmt::format("expected {}. Received: {}.", expected, text));
}

Json to_nlohmann(const Config& config) {
  if (config.is_null()) return nullptr;
  if (config.is_bool()) return config.as_bool();
  if (config.is_integer()) return config.as_integer();
  if (config.is_number()) {
    if (!std::isfinite(config.as_number())) {
      internal::fail_argument(
          "config", fmt::format("expected a finite number. Received: {}.", config.as_number()));
    }
    return config.as_number();
  }
  if (config.is_string()) return config.as_string();
  if (config.is_list()) {
    Json list = Json::array();
    for (const Config& value : config.as_list()) list.push_back(to_nlohmann(value));
    return list;
  }
  Json object = Json::object();
  for (const auto& [key, value] : config.entries()) object[key] = to_nlohmann(value);
  return object;
}

Config from_nlohmann(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
        return json.get<double>();
      }
      return json.get<std::int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array: {
      Config::List list;
      for (const Json& value : json) list.push_back(from_nlohmann(value));
      return list;
    }
    case Json::value_t::object: {
      std::vector<Config::Entry> entries;
      for (const auto& [key, value] : json.items()) {
        entries.emplace_back(key, from_nlohmann(value));
      }
      return Config::object(std::move(entries));
    }
    default:
      return nullptr;
  }
}

}  // namespace

Config::Config(const Config&) = default;
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(const Config&) = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

Config Config::object(std::vector<Entry> entries) {
  Config config;
  config.value_ = Entries{std::move(entries)};
  return config;
}

bool Config::as_bool() const {
  if (!is_bool()) refuse("true or false", *this);
  return std::get<bool>(value_);
}

std::int64_t Config::as_integer() const {
  if (!is_integer()) refuse("an integer", *this);
  return std::get<std::int64_t>(value_);
}

double Config::as_number() const {
  if (is_integer()) return static_cast<double>(as_integer());
  if (!is_number()) refuse("a number", *this);
  return std::get<double>(value_);
}

const std::string& Config::as_string() const {
  if (!is_string()) refuse("a string", *this);
  return std::get<std::string>(value_);
}

const Config::List& Config::as_list() const {
  if (!is_list()) refuse("a list", *this);
  return std::get<List>(value_);
}

const std::vector<Config::Entry>& Config::entries() const {
  if (!is_object()) refuse("an object", *this);
  return std::get<Entries>(value_).items;
}

const Config* Config::find(std::string_view key) const {
  for (const auto& [name, value] : entries()) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Config& Config::at(std::string_view key) const {
  const Config* value = find(key);
  if (value == nullptr) refuse(fmt::format("an object with '{}'", key).c_str(), *this);
  return *value;
}

Config& Config::set(std::string_view key, Config value) {
  if (is_null()) value_ = Entries{};
  if (!is_object()) refuse("an object", *this);
  auto& items = std::get<Entries>(value_).items;
  for (auto& [name, old] : items) {
    if (name == key) {
      old = std::move(value);
      return *this;
    }
  }
  items.emplace_back(key, std::move(value));
  return *this;
}

std::string Config::to_json(int indent) const {
  try {
    return to_nlohmann(*this).dump(indent);
  } catch (const Json::exception& error) {
    internal::fail_argument("config", fmt::format("expected UTF-8 text. {}.", error.what()));
  }
}

Config Config::parse(std::string_view json) {
  const auto limit_depth = [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) {
      internal::fail_argument(
          "config",
          fmt::format("expected JSON nested at most {} deep. Received: more.", kMaxDepth));
    }
    return true;
  };
  try {
    return from_nlohmann(Json::parse(json, limit_depth));
  } catch (const Json::exception& error) {
    internal::fail_argument("config", fmt::format("expected JSON. {}.", error.what()));
  }
}

bool operator==(const Config& a, const Config& b) {
  return a.value_ == b.value_;
}

}  // namespace demi
