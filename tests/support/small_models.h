// Small models and data for the tests of training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <demi/dataset.h>
#include <demi/model.h>

namespace demi::testing {

/// Points in the plane around three centres; labels 0, 1, 2 in turn.
[[nodiscard]] Dataset blobs(std::int64_t count, std::uint64_t seed = 0);

/// Dense 16 relu, dense 3 softmax on points of the plane, under `policy` (which becomes the global
/// one); the same weights each time.
[[nodiscard]] Model classifier(const std::string& policy = "float32");

/// The same, compiled for the CPU with SGD and accuracy.
[[nodiscard]] Model compiled_classifier(const std::string& policy);

/// Two quiet epochs of blobs in batches of 8, with validation.
[[nodiscard]] FitOptions fit_options_with(const CallbackHandle& callback);

void expect_same_weights(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected);

}  // namespace demi::testing
