// What the processor is, for reports.
#pragma once

#include <string>

namespace demi::cpu {

/// "Intel(R) Xeon(R) Processor, AVX2, 2 threads".
[[nodiscard]] std::string describe_processor();

/// Whether float16 is converted to and from float32 by the hardware.
[[nodiscard]] bool converts_float16();

}  // namespace demi::cpu
