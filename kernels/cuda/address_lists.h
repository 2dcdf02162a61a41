// AddressLists: what a kernel needs to know of many tensors, in device memory, as it would not fit
// into the arguments of a launch.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "kernels/cuda/context.h"

namespace demi::cuda {

/// The lists of one kernel. Not thread safe, as a kernel's run() is not.
class AddressLists {
 public:
  /// Lists take `bytes`. Memory for the first one is allocated here, if there is a device; a run
  /// allocates only if its addresses are others than those of all runs before it.
  AddressLists(std::size_t bytes, Context& context);
  ~AddressLists();
  AddressLists(const AddressLists&) = delete;
  AddressLists& operator=(const AddressLists&) = delete;

  /// The device's copy of `list`, for launches queued from now on. It stays as it is: a launch that
  /// was captured reads it at every replay.
  [[nodiscard]] const void* store(const std::vector<std::byte>& list);

 private:
  struct Stored {
    std::vector<std::byte> content;  ///< empty: unused memory
    void* address = nullptr;
  };

  void add_memory();

  std::size_t bytes_;
  Context& context_;
  std::deque<Stored> stored_;
};

}  // namespace demi::cuda
