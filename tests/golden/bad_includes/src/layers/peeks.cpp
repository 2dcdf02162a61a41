#include "src/ops/matmul.h"
