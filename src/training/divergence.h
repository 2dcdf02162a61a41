// When training cannot go on: the error that says where the first non-finite value comes from.
#pragma once

#include <string>

#include "src/training/trainer.h"

namespace demi::internal {

/// Throws TrainingDiverged "[where] what", followed by the layer, op and direction (forward or
/// backward) in which a NaN or an infinity first arises on the data in `buffer` of `program`.
[[noreturn]] void throw_diverged(Program& program, int buffer, const std::string& where,
                                 const std::string& what);

/// Throws TrainingDiverged if, after a run of `program` on `buffer`, as many steps in a row have
/// been skipped as the optimizer's max_consecutive_skips allows. Does nothing without loss scaling.
void check_skips(const Trainer& trainer, Program& program, int buffer, const std::string& where);

}  // namespace demi::internal
