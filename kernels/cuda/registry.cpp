#include "kernels/cuda/registry.h"

#include <utility>

#include "kernels/cuda/trial.h"

namespace demi::cuda {

// Note [Rivals]
// Max-pooling and batch normalization have kernels of our own and calls of cuDNN. Ours come first:
// they fuse more and keep less. With Preference::kCudnn the call is used wherever it accepts, as
// the cross-check on a GPU; otherwise it is used where there is a device, it may be measured, and
// it is faster there (Options::autotune). What cuDNN supports of these calls it says only when they
// are made, so where there is a device a call is tried before it is chosen.

void Registry::add(std::string_view op, std::string candidate, Factory factory) {
  candidates_[std::string(op)].own.push_back({std::move(candidate), factory});
}

void Registry::add_rival(std::string_view op, std::string candidate, Factory factory) {
  candidates_[std::string(op)].rivals.push_back({std::move(candidate), factory});
}

void Registry::select_first(const std::vector<Candidate>& candidates, const KernelRequest& request,
                            Context& context, KernelSelection& selection) {
  for (const Candidate& candidate : candidates) {
    std::string reason;
    selection.kernel = candidate.factory(request, context, reason);
    if (selection.kernel) return;
    selection.refusals.push_back({candidate.name, reason});
  }
}

KernelSelection Registry::select(const KernelRequest& request, Context& context) const {
  KernelSelection selection;
  const auto found = candidates_.find(request.op);
  if (found == candidates_.end()) return selection;
  const auto& [own, rivals] = found->second;
  const Preference preference = context.options().preference;
  if (preference == Preference::kCudnn) {
    select_first(rivals, request, context, selection);
    if (selection.kernel && context.has_device()) {
      const std::string failure = failure_of(*selection.kernel, request, context);
      if (!failure.empty()) {
        selection.refusals.push_back({selection.kernel->name(), failure});
        selection.kernel = nullptr;
      }
    }
    if (selection.kernel) return selection;
  }
  select_first(own, request, context, selection);
  const bool measured = preference == Preference::kFastest && context.options().autotune;
  if (!selection.kernel || rivals.empty() || !measured || !context.has_device()) return selection;
  KernelSelection other;
  select_first(rivals, request, context, other);
  if (other.kernel && is_faster(*other.kernel, *selection.kernel, request, context)) return other;
  return selection;
}

}  // namespace demi::cuda
