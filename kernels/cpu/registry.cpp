#include "kernels/cpu/registry.h"

namespace demi::cpu {

void Registry::add(std::string_view op, std::string candidate, Factory factory) {
  candidates_[std::string(op)].push_back({std::move(candidate), factory});
}

KernelSelection Registry::select(const KernelRequest& request, ThreadPool& pool) const {
  KernelSelection selection;
  const auto found = candidates_.find(request.op);
  if (found == candidates_.end()) return selection;
  for (const Candidate& candidate : found->second) {
    std::string reason;
    selection.kernel = candidate.factory(request, pool, reason);
    if (selection.kernel) return selection;
    selection.refusals.push_back({candidate.name, reason});
  }
  return selection;
}

}  // namespace demi::cpu
