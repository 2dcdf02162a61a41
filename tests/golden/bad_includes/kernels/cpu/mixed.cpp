#include <cuda_runtime.h>
#include <demi/dtype.h>
#include <demi/layer.h>
