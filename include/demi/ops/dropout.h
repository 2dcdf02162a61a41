// Dropout with a counter-based random stream.
#pragma once

#include <cstdint>
#include <string>

#include <demi/symbolic_tensor.h>

namespace demi::ops {

struct DropoutAttributes {
  double rate = 0.5;
  std::uint64_t seed = 0;
  friend bool operator==(const DropoutAttributes&, const DropoutAttributes&) = default;
};
std::string describe(const DropoutAttributes& attributes);

/// Element i is kept and divided by (1 - rate) if u(i) >= rate, else 0, where u(i) is word i mod 4
/// of Philox4x32-10 with key `seed` and counter {i / 4, step}, mapped to [0, 1). `step` is an int64
/// scalar. The same on every backend and thread count; the backward op draws the same numbers anew
/// instead of storing a mask. rate in [0, 1]; throws std::invalid_argument. IR: dropout(x, step);
/// its gradient is dropout(dy, step).
[[nodiscard]] SymbolicTensor dropout(const SymbolicTensor& x, double rate, std::uint64_t seed,
                                     const SymbolicTensor& step);

}  // namespace demi::ops
