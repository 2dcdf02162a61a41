// What a run of fit is made of, as a tree of plain values: enough to do it again, and to see in
// what two runs differ.
#pragma once

#include <string>

#include <demi/callbacks.h>
#include <demi/config.h>
#include <demi/dataset.h>

namespace demi::internal {

/// {"model", "policy", "layer_policies", "optimizer", "losses", "metrics", "fit", "seeds",
/// "device", "demi"} of the fit under way. "model" is null for layers that cannot be described.
[[nodiscard]] Config describe_run(const TrainingControl& control);

/// {"samples", "inputs", "targets"}; of each array dtype, shape of a sample, and "crc32c" of the
/// samples in their order, 8 hexadecimal digits. Null for a data set without arrays.
[[nodiscard]] Config describe_data(const Dataset& data);

}  // namespace demi::internal
