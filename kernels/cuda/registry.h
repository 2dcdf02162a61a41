// Kernel candidates of the CUDA backend.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/kernel.h"

namespace demi::cuda {

/// Prepares a kernel for a request, or returns null and says why in `reason`. Must not need a
/// device (Context::has_device). The kernel may keep a reference to the context, which outlives it.
using Factory = std::unique_ptr<Kernel> (*)(const KernelRequest& request, Context& context,
                                            std::string& reason);

/// Ordered candidates for each op. Families add theirs in register_<family>_kernels, best first,
/// the general one last.
class Registry {
 public:
  void add(std::string_view op, std::string candidate, Factory factory);

  /// A call of cuDNN that does what candidates of add() do as well: Note [Rivals].
  void add_rival(std::string_view op, std::string candidate, Factory factory);

  [[nodiscard]] KernelSelection select(const KernelRequest& request, Context& context) const;

 private:
  struct Candidate {
    std::string name;
    Factory factory;
  };
  struct Candidates {
    std::vector<Candidate> own;
    std::vector<Candidate> rivals;
  };

  static void select_first(const std::vector<Candidate>& candidates, const KernelRequest& request,
                           Context& context, KernelSelection& selection);

  std::map<std::string, Candidates, std::less<>> candidates_;
};

}  // namespace demi::cuda
