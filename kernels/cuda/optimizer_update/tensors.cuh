// Kernels over all tensors of a model in few launches: the tensors' addresses are in a table that
// is an argument of the kernel, cut into chunks that blocks take one after another. A launch that
// was captured keeps its table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

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

/// Lists of equally many tensors: element i of all of them has one number of elements.
template <int kLists>
struct Table {
  /// As many as leave a kernel 256 of its 4096 bytes for other arguments.
  static constexpr int kCapacity = 3840 / (kLists * 8 + 8 + 4 + 2 + kLists + 1) - 1;

  void* address[kLists][kCapacity];
  std::int64_t elements[kCapacity];
  int first_chunk[kCapacity + 1];
  std::uint16_t tensor[kCapacity];  ///< its place in the op's lists
  DType dtype[kLists][kCapacity];
  bool flag[kCapacity];
  int count;

  [[nodiscard]] __host__ __device__ int chunks() const { return first_chunk[count]; }
  /// The tensor that a chunk is of.
  [[nodiscard]] __device__ int find(int chunk) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first_chunk[middle] <= chunk) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

/// One tensor of an op, for tables().
template <int kLists>
struct Entry {
  std::int64_t elements;
  DType dtype[kLists];
  bool flag = false;  ///< what it means is up to the kernel
};

/// Tables, without addresses, of those entries for which wanted(entry), in order.
template <int kLists, class Wanted>
[[nodiscard]] std::vector<Table<kLists>> tables(const std::vector<Entry<kLists>>& entries,
                                                Wanted&& wanted) {
  std::vector<Table<kLists>> result;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry<kLists>& entry = entries[i];
    if (!wanted(entry)) continue;
    if (result.empty() || result.back().count == Table<kLists>::kCapacity) result.push_back({});
    Table<kLists>& table = result.back();
    const int at = table.count++;
    table.elements[at] = entry.elements;
    table.first_chunk[at + 1] =
        table.first_chunk[at] + static_cast<int>((entry.elements + kChunk - 1) / kChunk);
    table.tensor[at] = static_cast<std::uint16_t>(i);
    for (int list = 0; list < kLists; ++list) table.dtype[list][at] = entry.dtype[list];
    table.flag[at] = entry.flag;
  }
  return result;
}

/// A table with the addresses that address(list, tensor) gives.
template <int kLists, class Address>
[[nodiscard]] Table<kLists> with_addresses(const Table<kLists>& table, Address&& address) {
  Table<kLists> filled = table;
  for (int i = 0; i < table.count; ++i) {
    for (int list = 0; list < kLists; ++list) {
      filled.address[list][i] = address(list, std::size_t{table.tensor[i]});
    }
  }
  return filled;
}

/// Blocks for a table: enough to fill the device, each with some chunks.
template <int kLists>
[[nodiscard]] unsigned blocks_for_chunks(const Table<kLists>& table, const Context& context) {
  const int most = std::max(8 * context.properties().multiprocessors, 1);
  return static_cast<unsigned>(std::min(table.chunks(), most));
}

/// Calls body(entry of the table, first element, elements ≤ kLength) for this thread's packets of a
/// chunk.
template <int kLists, class Body>
__device__ inline void for_packets_of(const Table<kLists>& table, int chunk, Body&& body) {
  const int entry = table.find(chunk);
  const std::int64_t first = static_cast<std::int64_t>(chunk - table.first_chunk[entry]) * kChunk;
  const std::int64_t left = table.elements[entry] - first;
  for (int offset = static_cast<int>(threadIdx.x) * kLength; offset < kChunk && offset < left;
       offset += kThreads * kLength) {
    const std::int64_t count = left - offset;
    body(entry, first + offset, count < kLength ? static_cast<int>(count) : kLength);
  }
}

/// The same for the chunks of this block.
template <int kLists, class Body>
__device__ inline void for_packets(const Table<kLists>& table, Body&& body) {
  for (int chunk = static_cast<int>(blockIdx.x); chunk < table.chunks();
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

}  // namespace demi::cuda::optimizer_update
