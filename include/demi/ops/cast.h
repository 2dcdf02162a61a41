// Conversions between dtypes.
#pragma once

#include <string>

#include <demi/symbolic_tensor.h>

namespace demi::ops {

struct CastAttributes {
  DType dtype = DType::kFloat32;
  friend bool operator==(const CastAttributes&, const CastAttributes&) = default;
};
std::string describe(const CastAttributes& attributes);

/// Every element converted to `dtype`: to a 16-bit type rounding to nearest even, to an integer
/// toward zero, to bool as x != 0. A cast is written also where `x` has that dtype: under a mixed
/// policy the autocast pass may yet narrow x. One that turns out to change nothing costs nothing.
[[nodiscard]] SymbolicTensor cast(const SymbolicTensor& x, DType dtype);

struct RescaleAttributes {
  double scale = 1;
  double offset = 0;
  friend bool operator==(const RescaleAttributes&, const RescaleAttributes&) = default;
};
std::string describe(const RescaleAttributes& attributes);

/// x · scale + offset as a floating value, computed in float32: how stored images become network
/// input. Integer x gives float32, or the compute dtype under a mixed policy.
[[nodiscard]] SymbolicTensor rescale(const SymbolicTensor& x, double scale, double offset = 0);

}  // namespace demi::ops
