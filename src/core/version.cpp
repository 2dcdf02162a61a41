#include <demi/version.h>

#include "src/core/revision.h"

namespace demi {

std::string version() {
  return DEMI_VERSION;
}

std::string git_revision() {
  return DEMI_GIT_REVISION;
}

}  // namespace demi
