// What tests set in the emulated cuDNN. Another switch is the environment variable
// DEMI_EMULATOR_CUDNN: the file of the cuDNN to plan with, read once.
#pragma once

extern "C" {

/// The next `count` execution plans that are finalized are refused, as if their engines did not
/// support the graph; 0: none.
void demi_emulator_refuse_plans(int count);

}  // extern "C"
