// What tests set in the emulated libraries. Another switch is the environment variable
// DEMI_EMULATOR_CUDNN: the file of the cuDNN to plan with, read once.
#pragma once

extern "C" {

/// The next `count` execution plans of cuDNN that are finalized are refused, as if their engines
/// did not support the graph; 0: none.
void demi_emulator_refuse_plans(int count);

/// cuBLASLt's heuristics find nothing for these epilogues from now on: an OR of cublasLtEpilogue_t
/// bits, of which one suffices; 0: they find all.
void demi_emulator_refuse_epilogues(unsigned bits);

}  // extern "C"
