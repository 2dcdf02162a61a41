#include "src/ir/graph.h"
