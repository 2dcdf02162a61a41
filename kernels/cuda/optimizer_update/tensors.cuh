// Kernels over all tensors of a model in one launch: a table in device memory says where the
// tensors are; they are cut into chunks that blocks take one after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/cuda/address_lists.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packet.cuh"
#include "kernels/kernel.h"

namespace demi::cuda::optimizer_update {

inline constexpr int kThreads = 256;
/// Elements a thread handles at a time: one packet, whatever the dtype.
inline constexpr int kLength = 4;
/// Elements of a chunk.
inline constexpr int kChunk = kThreads * kLength * 4;

/// The tensors at one place of lists of equally many, which have one number of elements. Without
/// padding: tables are compared byte by byte.
template <int kLists>
struct Entry {
  static constexpr int kMostLists = 7;
  static_assert(kLists <= kMostLists);

  void* address[kLists] = {};
  std::int64_t elements = 0;
  std::int32_t first_chunk = 0;
  std::int32_t columns = 0;  ///< the innermost extent, where that matters
  std::int64_t tensor = 0;   ///< the place in the op's lists
  DType dtype[kMostLists] = {};
  std::uint8_t flags = 0;  ///< what they mean is up to the kernel
};

/// A table as kernels get it.
template <int kLists>
struct Table {
  const Entry<kLists>* entries;
  std::int32_t count;
  std::int32_t chunks;

  /// The entry that a chunk is of.
  [[nodiscard]] __device__ int find(int chunk) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (entries[middle].first_chunk <= chunk) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

/// Some of an op's tensors, and the tables of them that runs have needed so far.
template <int kLists>
class Tensors {
  static_assert(std::has_unique_object_representations_v<Entry<kLists>>);

 public:
  /// Those of `entries` for which wanted(entry), in order.
  template <class Wanted>
  Tensors(const std::vector<Entry<kLists>>& entries, Wanted&& wanted, Context& context)
      : context_(context) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (!wanted(entries[i])) continue;
      Entry<kLists> entry = entries[i];
      entry.tensor = static_cast<std::int64_t>(i);
      entry.first_chunk = chunks_;
      chunks_ += static_cast<std::int32_t>((entry.elements + kChunk - 1) / kChunk);
      entries_.push_back(entry);
    }
    lists_ = std::make_shared<AddressLists>(entries_.size() * sizeof(Entry<kLists>), context);
  }

  [[nodiscard]] bool is_empty() const { return entries_.empty(); }
  [[nodiscard]] std::int32_t chunks() const { return chunks_; }

  /// The table with the addresses that address(list, tensor) gives.
  template <class Address>
  [[nodiscard]] Table<kLists> table(Address&& address) const {
    std::vector<std::byte> bytes(entries_.size() * sizeof(Entry<kLists>));
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry<kLists> entry = entries_[i];
      for (int list = 0; list < kLists; ++list) {
        entry.address[list] = address(list, static_cast<std::size_t>(entry.tensor));
      }
      std::memcpy(bytes.data() + i * sizeof(entry), &entry, sizeof(entry));
    }
    return {static_cast<const Entry<kLists>*>(lists_->store(bytes)),
            static_cast<std::int32_t>(entries_.size()), chunks_};
  }

  /// Blocks for a launch: enough to fill the device, each with some chunks; at least one.
  [[nodiscard]] unsigned blocks() const {
    const int most = std::max(8 * context_.properties().multiprocessors, 1);
    return static_cast<unsigned>(std::clamp(chunks_, 1, most));
  }

 private:
  Context& context_;
  std::vector<Entry<kLists>> entries_;
  std::int32_t chunks_ = 0;
  std::shared_ptr<AddressLists> lists_;
};

/// Calls body(entry, first element, elements ≤ kLength) for this thread's packets of a
/// chunk.
template <int kLists, class Body>
__device__ inline void for_packets_of(const Table<kLists>& table, int chunk, Body&& body) {
  const int entry = table.find(chunk);
  const Entry<kLists>& tensors = table.entries[entry];
  const std::int64_t first = static_cast<std::int64_t>(chunk - tensors.first_chunk) * kChunk;
  const std::int64_t left = tensors.elements - first;
  for (int offset = static_cast<int>(threadIdx.x) * kLength; offset < kChunk && offset < left;
       offset += kThreads * kLength) {
    const std::int64_t count = left - offset;
    body(tensors, first + offset, count < kLength ? static_cast<int>(count) : kLength);
  }
}

/// The same for the chunks of this block.
template <int kLists, class Body>
__device__ inline void for_packets(const Table<kLists>& table, Body&& body) {
  for (int chunk = static_cast<int>(blockIdx.x); chunk < table.chunks;
       chunk += static_cast<int>(gridDim.x)) {
    for_packets_of(table, chunk, body);
  }
}

template <class T, class C>
__device__ inline void load_as(const void* from, std::int64_t first, int count,
                               C (&values)[kLength]) {
  const T* elements = static_cast<const T*>(from) + first;
  if (count == kLength) {
    const auto packet = load_packet<kLength>(elements);
    DEMI_UNROLL
    for (int i = 0; i < kLength; ++i) values[i] = static_cast<C>(load(packet.at[i]));
  } else {
    for (int i = 0; i < count; ++i) values[i] = static_cast<C>(load(elements[i]));
  }
}

template <class T, class C>
__device__ inline void store_as(const C (&values)[kLength], void* to, std::int64_t first,
                                int count) {
  T* elements = static_cast<T*>(to) + first;
  if (count == kLength) {
    Packet<T, kLength> packet;
    DEMI_UNROLL
    for (int i = 0; i < kLength; ++i) packet.at[i] = store<T>(values[i]);
    store_packet(elements, packet);
  } else {
    for (int i = 0; i < count; ++i) elements[i] = store<T>(values[i]);
  }
}

/// Elements of any floating dtype, computed in C.
template <class C>
__device__ inline void load_some(const void* from, DType dtype, std::int64_t first, int count,
                                 C (&values)[kLength]) {
  switch (dtype) {
    case DType::kFloat16:
      return load_as<__half>(from, first, count, values);
    case DType::kBFloat16:
      return load_as<__nv_bfloat16>(from, first, count, values);
    case DType::kFloat64:
      return load_as<double>(from, first, count, values);
    default:
      return load_as<float>(from, first, count, values);
  }
}

template <class C>
__device__ inline void store_some(const C (&values)[kLength], void* to, DType dtype,
                                  std::int64_t first, int count) {
  switch (dtype) {
    case DType::kFloat16:
      return store_as<__half>(values, to, first, count);
    case DType::kBFloat16:
      return store_as<__nv_bfloat16>(values, to, first, count);
    case DType::kFloat64:
      return store_as<double>(values, to, first, count);
    default:
      return store_as<float>(values, to, first, count);
  }
}

/// The place in the transpose of [rows, columns] of element `i`.
__device__ inline std::int64_t transposed_place(std::int64_t i, std::int64_t rows, int columns) {
  const std::int64_t row = i / columns;
  return (i - row * columns) * rows + row;
}

}  // namespace demi::cuda::optimizer_update
