#include <iostream>

#include <fmt/format.h>

#include <demi/callbacks.h>

namespace demi {

bool TerminateOnNaN::on_non_finite_loss(std::int64_t step) {
  std::cout << fmt::format("Step {}: the loss is not finite, terminating training\n", step);
  stop_training();
  return true;
}

}  // namespace demi
