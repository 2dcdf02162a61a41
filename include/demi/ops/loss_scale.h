// Dynamic loss scaling on the device: is everything finite, and what that does to the scale.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <demi/symbolic_tensor.h>

namespace demi::ops {

/// A bool scalar: no element of any value is NaN or infinite. Values are floating, at least one.
[[nodiscard]] SymbolicTensor all_finite(const std::vector<SymbolicTensor>& values);

struct LossScaleAttributes {
  std::int64_t growth_steps = 2000;
  bool dynamic = true;
  friend bool operator==(const LossScaleAttributes&, const LossScaleAttributes&) = default;
};
std::string describe(const LossScaleAttributes& attributes);

inline constexpr double kMinLossScale = 0x1p-14;
inline constexpr double kMaxLossScale = 0x1p24;

/// Four variables, scalars.
struct LossScaleState {
  SymbolicTensor scale;              ///< float32
  SymbolicTensor good_steps;         ///< int64: finite steps since the scale last changed
  SymbolicTensor skipped_steps;      ///< int64: all non-finite steps so far
  SymbolicTensor consecutive_skips;  ///< int64: non-finite steps since the last finite one
};
/// After a finite step: good_steps + 1, and once that is at least growth_steps, scale · 2 and
/// good_steps 0. After another one: scale · 0.5 and good_steps 0, both skip counters + 1. The scale
/// stays in [kMinLossScale, kMaxLossScale], and as it is unless `dynamic`.
/// IR: loss_scale_update(scale, good_steps, skipped_steps, consecutive_skips, finite).
LossScaleState loss_scale_update(const LossScaleState& state, const SymbolicTensor& finite,
                                 const LossScaleAttributes& attributes);

}  // namespace demi::ops
