// What a call throws, for tests of error messages.
#pragma once

#include <exception>
#include <string>
#include <typeinfo>

namespace demi::testing {

/// The message of the Exception that `call` throws; a description of what happened instead if it
/// throws nothing or something else.
template <class Exception, class Call>
[[nodiscard]] std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("a ") + typeid(error).name() + " was thrown: " + error.what();
  }
  return "nothing was thrown";
}

}  // namespace demi::testing
