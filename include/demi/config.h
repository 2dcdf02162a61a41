// Config: the plain values that layers, optimizers and models describe themselves with.
//
// A tree of null, bool, integer, number, string, list and object, as in JSON. Objects keep the
// order in which their keys were set.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace demi {

class Config {
 public:
  using List = std::vector<Config>;
  using Entry = std::pair<std::string, Config>;

  Config() = default;  ///< null
  Config(const Config&);
  Config(Config&&) noexcept;
  Config& operator=(const Config&);
  Config& operator=(Config&&) noexcept;
  ~Config();
  // NOLINTBEGIN(google-explicit-constructor): a config is written as nested values
  Config(std::nullptr_t) {}
  Config(bool value) : value_(value) {}
  Config(int value) : value_(std::int64_t{value}) {}
  Config(std::int64_t value) : value_(value) {}
  Config(double value) : value_(value) {}
  Config(const char* value) : value_(std::string(value)) {}
  Config(std::string value) : value_(std::move(value)) {}
  Config(List values) : value_(std::move(values)) {}
  // NOLINTEND(google-explicit-constructor)

  /// An object: `Config::object({{"name", "dense"}, {"units", 10}})`.
  [[nodiscard]] static Config object(std::vector<Entry> entries = {});
  /// A list of integers.
  template <class Range>
  [[nodiscard]] static Config integers(const Range& values) {
    List list;
    for (const auto value : values) list.emplace_back(static_cast<std::int64_t>(value));
    return list;
  }

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  [[nodiscard]] bool is_bool() const { return std::holds_alternative<bool>(value_); }
  [[nodiscard]] bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }
  [[nodiscard]] bool is_number() const {
    return is_integer() || std::holds_alternative<double>(value_);
  }
  [[nodiscard]] bool is_string() const { return std::holds_alternative<std::string>(value_); }
  [[nodiscard]] bool is_list() const { return std::holds_alternative<List>(value_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<Entries>(value_); }

  // The value; each throws std::invalid_argument showing what is there instead.
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_integer() const;
  [[nodiscard]] double as_number() const;  ///< of a number or an integer
  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] const List& as_list() const;
  /// The entries of an object.
  [[nodiscard]] const std::vector<Entry>& entries() const;

  /// The value under `key` of an object; null if there is none. Throws std::invalid_argument if
  /// this is not an object.
  [[nodiscard]] const Config* find(std::string_view key) const;
  /// The same; throws std::invalid_argument naming the key if there is none.
  [[nodiscard]] const Config& at(std::string_view key) const;
  /// Sets or adds a key of an object (null becomes an object). Returns *this.
  Config& set(std::string_view key, Config value);

  /// JSON text; `indent` < 0: on one line. Numbers read back as the same bits.
  [[nodiscard]] std::string to_json(int indent = -1) const;
  /// Throws std::invalid_argument with the position of the first mistake.
  [[nodiscard]] static Config parse(std::string_view json);

  friend bool operator==(const Config& a, const Config& b);

 private:
  /// A type of its own, so that it is not mistaken for a list.
  struct Entries {
    std::vector<Entry> items;
    friend bool operator==(const Entries& a, const Entries& b) { return a.items == b.items; }
  };
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Entries> value_;
};

}  // namespace demi
