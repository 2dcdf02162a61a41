// Kernel candidates of the CPU backend.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "kernels/kernel.h"

namespace demi::cpu {

/// Prepares a kernel for a request, or returns null and says why in `reason`.
using Factory = std::unique_ptr<Kernel> (*)(const KernelRequest& request, ThreadPool& pool,
                                            std::string& reason);

/// Ordered candidates for each op. Families add theirs in register_<family>_kernels, best first,
/// the general one last.
class Registry {
 public:
  void add(std::string_view op, std::string candidate, Factory factory);

  [[nodiscard]] KernelSelection select(const KernelRequest& request, ThreadPool& pool) const;

 private:
  struct Candidate {
    std::string name;
    Factory factory;
  };
  std::map<std::string, std::vector<Candidate>, std::less<>> candidates_;
};

}  // namespace demi::cpu
