#include "kernels/cuda/registry.h"

namespace demi::cuda {

void Registry::add(std::string_view op, std::string candidate, Factory factory) {
  candidates_[std::string(op)].push_back({std::move(candidate), factory});
}

KernelSelection Registry::select(const KernelRequest& request, Context& context) const {
  KernelSelection selection;
  const auto found = candidates_.find(request.op);
  if (found == candidates_.end()) return selection;
  for (const Candidate& candidate : found->second) {
    std::string reason;
    selection.kernel = candidate.factory(request, context, reason);
    if (selection.kernel) return selection;
    selection.refusals.push_back({candidate.name, reason});
  }
  return selection;
}

}  // namespace demi::cuda
