// The filter of a correlation, cut into panels of result channels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv2d/correlation.h"
#include "kernels/cpu/microkernels.h"

namespace demi::cpu {

/// Packs the panel of group `group` whose first result channel is `column`, as [taps, source
/// channels, width]; tap_of_slot[i] is the one that comes i-th.
template <class E>
void pack_filter_panel(const MicroKernels<E>& kernels, const CorrelationProblem& p,
                       const void* filter, std::int64_t group, std::int64_t column,
                       const std::int32_t* tap_of_slot, E* out) {
  const std::int64_t taps = p.rows.taps * p.columns.taps;
  const std::int64_t columns = std::min(kernels.panel_width, p.result_channels - column);
  const std::int64_t width = kernels.width_of(columns);
  const auto at = [&](std::int64_t element) {
    return Source{static_cast<const std::byte*>(filter) +
                      element * static_cast<std::int64_t>(size_of(p.filter_dtype)),
                  storage_of(p.filter_dtype)};
  };
  if (!p.rows.backward) {
    // Already in this order.
    kernels.pack({.source = at(group * p.result_channels + column),
                  .source_stride = p.groups * p.result_channels,
                  .rows = taps * p.source_channels,
                  .columns = columns,
                  .out = out,
                  .width = width});
    return;
  }
  const std::int64_t pitch = p.groups * p.source_channels;
  for (std::int64_t slot = 0; slot < taps; ++slot) {
    kernels.pack_transposed({.source = at((tap_of_slot[slot] * p.result_channels + column) * pitch +
                                          group * p.source_channels),
                             .source_stride = pitch,
                             .rows = p.source_channels,
                             .columns = columns,
                             .out = out + slot * p.source_channels * width,
                             .width = width});
  }
}

}  // namespace demi::cpu
