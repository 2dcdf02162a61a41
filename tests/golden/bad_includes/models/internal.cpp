#include <demi/demi.h>
#include "src/ir/graph.h"
