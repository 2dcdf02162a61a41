#include "kernels/cuda/address_lists.h"

#include "kernels/cuda/check.h"
#include "src/core/check.h"

namespace demi::cuda {

namespace {
constexpr const char* kPurpose = "lists of tensors";
}

AddressLists::AddressLists(std::size_t bytes, Context& context) : bytes_(bytes), context_(context) {
  if (context_.has_device() && bytes_ > 0) add_memory();
}

AddressLists::~AddressLists() {
  for (const Stored& stored : stored_) {
    (void)cudaFree(stored.address);
    context_.ledger().remove(kPurpose, bytes_);
  }
}

void AddressLists::add_memory() {
  Stored stored;
  DEMI_CUDA_CHECK(cudaMalloc(&stored.address, bytes_));
  context_.ledger().add(kPurpose, bytes_);
  stored_.push_back(std::move(stored));
}

const void* AddressLists::store(const std::vector<std::byte>& list) {
  DEMI_CHECK(list.size() == bytes_, "a list of another size than was announced");
  if (bytes_ == 0) return nullptr;
  for (const Stored& stored : stored_) {
    if (stored.content == list) return stored.address;
  }
  if (!stored_.back().content.empty()) add_memory();
  Stored& stored = stored_.back();
  stored.content = list;
  DEMI_CUDA_CHECK(cudaMemcpyAsync(stored.address, stored.content.data(), bytes_,
                                  cudaMemcpyHostToDevice, context_.stream()));
  return stored.address;
}

}  // namespace demi::cuda
