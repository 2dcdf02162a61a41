// Checks of the data before the first step, so that a mistake is one clear line and not a NaN.
#pragma once

#include <cstdint>
#include <string>

#include <demi/dataset.h>

namespace demi::internal {

/// Each throws std::invalid_argument "[where] …" that names the array, the sample and the value.

/// At least one sample.
void check_not_empty(const Dataset& data, const std::string& where);
/// No NaN or infinity among the samples of the floating inputs and targets.
void check_finite(const Dataset& data, const std::string& where);
/// Target `index` holds integers in [0, classes).
void check_labels(const Dataset& data, std::size_t index, std::int64_t classes,
                  const std::string& where);

}  // namespace demi::internal
