// Attributes: the constant parameters of one op, in a value of any attribute struct.
//
// An attribute struct is a plain aggregate `XAttributes` with `operator==` and, in its namespace,
// `std::string describe(const XAttributes&)` giving "name=value, name=value" for printed graphs.
#pragma once

#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "src/core/check.h"

namespace demi {

/// Immutable, cheap to copy. Empty for ops without parameters.
class Attributes {
 public:
  Attributes() = default;

  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Attributes>)
      Attributes(T&& value)  // NOLINT(google-explicit-constructor): attributes convert at the call
      : holder_(std::make_shared<const Holder<std::remove_cvref_t<T>>>(std::forward<T>(value))) {}

  /// The struct held. Throws InternalError if it is of another type.
  template <class T>
  [[nodiscard]] const T& as() const {
    const auto* holder = dynamic_cast<const Holder<T>*>(holder_.get());
    DEMI_CHECK(holder != nullptr, "op attributes are of another type than the one asked for");
    return holder->value;
  }
  template <class T>
  [[nodiscard]] bool holds() const {
    return dynamic_cast<const Holder<T>*>(holder_.get()) != nullptr;
  }

  [[nodiscard]] std::string to_string() const { return holder_ ? holder_->describe_value() : ""; }

  friend bool operator==(const Attributes& a, const Attributes& b) {
    if (a.holder_ == b.holder_) return true;
    return a.holder_ && b.holder_ && a.holder_->equals(*b.holder_);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    [[nodiscard]] virtual std::string describe_value() const = 0;
    [[nodiscard]] virtual bool equals(const Base& other) const = 0;
  };
  template <class T>
  struct Holder final : Base {
    explicit Holder(T v) : value(std::move(v)) {}
    [[nodiscard]] std::string describe_value() const override { return describe(value); }
    [[nodiscard]] bool equals(const Base& other) const override {
      const auto* same = dynamic_cast<const Holder*>(&other);
      return same != nullptr && same->value == value;
    }
    T value;
  };

  std::shared_ptr<const Base> holder_;
};

}  // namespace demi
