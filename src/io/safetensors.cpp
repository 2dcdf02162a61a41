#include "src/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/core/check.h"
#include "src/io/atomic_file.h"
#include "src/io/input_file.h"

static_assert(std::endian::native == std::endian::little, "the elements are written as they lie");

namespace demi::io {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
/// The reference implementation's limit, far above any real header.
constexpr std::uint64_t kLongestHeader = 100'000'000;

struct DTypeName {
  DType dtype;
  std::string_view name;
};

/// In the order in which the reference implementation lays tensors out: wider elements first, so
/// that every tensor is aligned to its element.
constexpr std::array<DTypeName, 8> kDTypes = {{
    {DType::kInt64, "I64"},
    {DType::kFloat64, "F64"},
    {DType::kFloat32, "F32"},
    {DType::kInt32, "I32"},
    {DType::kBFloat16, "BF16"},
    {DType::kFloat16, "F16"},
    {DType::kUint8, "U8"},
    {DType::kBool, "BOOL"},
}};

/// The entry of `dtype`, as a position in kDTypes.
std::size_t place_of(DType dtype) {
  const auto* found = std::ranges::find(kDTypes, dtype, &DTypeName::dtype);
  DEMI_CHECK(found != kDTypes.end(), "a dtype has no name in safetensors");
  return static_cast<std::size_t>(found - kDTypes.begin());
}

std::string_view name_of(DType dtype) {
  return kDTypes[place_of(dtype)].name;
}

// ---- Writing
// --------------------------------------------------------------------------------------

using Entry = TensorMap::value_type;

/// By dtype as kDTypes lists them, by name within one.
std::vector<const Entry*> in_file_order(const TensorMap& tensors) {
  std::vector<const Entry*> order;
  for (const Entry& entry : tensors) order.push_back(&entry);
  std::ranges::stable_sort(order, {},
                           [](const Entry* entry) { return place_of(entry->second.dtype()); });
  return order;
}

std::string header_text(const std::vector<const Entry*>& order, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  std::size_t offset = 0;
  for (const Entry* entry : order) {
    const auto& [name, tensor] = *entry;
    if (name == kMetadata) {
      internal::fail_argument("safetensors",
                              "expected tensor names other than '__metadata__'. Received: it.");
    }
    header[name] = {
        {"dtype", name_of(tensor.dtype())},
        {"shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())},
        {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    internal::fail_argument("safetensors", std::string("expected names and metadata in UTF-8. "
                                                       "Received: ") +
                                               error.what() + ".");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// ---- Reading
// --------------------------------------------------------------------------------------

/// One file being read: every complaint names its path.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path) {}

  SafetensorsFile read() {
    const nlohmann::json header = read_header();
    SafetensorsFile result;
    std::vector<Slot> slots;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        result.metadata = metadata_of(value);
      } else {
        slots.push_back(slot_of(name, value));
      }
    }
    check_layout(slots);
    for (const Slot& slot : slots) result.tensors.emplace(slot.name, read_tensor(slot));
    return result;
  }

 private:
  /// What the header says of one tensor.
  struct Slot {
    std::string name;
    Shape shape;
    DType dtype = DType::kFloat32;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  [[noreturn]] void fail(const std::string& expected, const std::string& received) const {
    internal::fail_argument("safetensors", fmt::format("expected {} in '{}'. Received: {}.",
                                                       expected, file_.path().string(), received));
  }

  nlohmann::json read_header() {
    std::uint64_t length = 0;
    if (file_.size() < sizeof length || file_.read(&length, sizeof length) < sizeof length) {
      fail("the length of the header in 8 bytes", fmt::format("{} bytes", file_.size()));
    }
    const std::uint64_t longest = std::min(kLongestHeader, file_.size() - sizeof length);
    if (length > longest) {
      fail(fmt::format("a header of at most {} bytes", longest),
           fmt::format("a length of {}", length));
    }
    std::string text(static_cast<std::size_t>(length), '\0');
    if (file_.read(text.data(), text.size()) < text.size()) fail("a whole header", "its beginning");
    data_bytes_ = file_.size() - sizeof length - length;
    return parse(text);
  }

  nlohmann::json parse(const std::string& text) const {
    // The parser keeps the last of equal keys; a repeated name is an error here.
    std::set<std::string> names;
    const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& key) {
      const bool is_name = depth == 1 && event == nlohmann::json::parse_event_t::key;
      if (is_name && !names.insert(key.get<std::string>()).second) {
        fail("each name once", "'" + key.get<std::string>() + "' twice");
      }
      return true;
    };
    nlohmann::json header;
    try {
      header = nlohmann::json::parse(text, watch);
    } catch (const nlohmann::json::exception& error) {
      fail("a header of JSON", error.what());
    }
    if (!header.is_object()) fail("a JSON object as header", header.type_name());
    return header;
  }

  Metadata metadata_of(const nlohmann::json& value) const {
    try {
      return value.get<Metadata>();
    } catch (const nlohmann::json::exception&) {
      fail("an object of strings under '__metadata__'", value.dump());
    }
  }

  Slot slot_of(const std::string& name, const nlohmann::json& value) const {
    Slot slot;
    slot.name = name;
    try {
      const auto dtype = value.at("dtype").get<std::string>();
      const auto found = std::ranges::find(kDTypes, dtype, &DTypeName::name);
      if (found == kDTypes.end()) {
        fail(fmt::format("a dtype among F64, F32, F16, BF16, I64, I32, U8, BOOL for '{}'", name),
             dtype);
      }
      slot.dtype = found->dtype;
      slot.shape = shape_of(name, value.at("shape"));
      const nlohmann::json& offsets = value.at("data_offsets");
      if (!is_list_of_counts(offsets) || offsets.size() != 2) {
        fail(fmt::format("two offsets for '{}'", name), offsets.dump());
      }
      slot.begin = offsets[0].get<std::uint64_t>();
      slot.end = offsets[1].get<std::uint64_t>();
    } catch (const nlohmann::json::exception& error) {
      fail(fmt::format("dtype, shape and data_offsets for '{}'", name), error.what());
    }
    return slot;
  }

  static bool is_list_of_counts(const nlohmann::json& value) {
    return value.is_array() && std::ranges::all_of(value, [](const nlohmann::json& count) {
             return count.is_number_unsigned();
           });
  }

  Shape shape_of(const std::string& name, const nlohmann::json& value) const {
    if (!is_list_of_counts(value) || value.size() > Shape::kMaxRank) {
      fail(fmt::format("at most {} extents >= 0 as the shape of '{}'", Shape::kMaxRank, name),
           value.dump());
    }
    for (const nlohmann::json& extent : value) {
      if (extent.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
        fail(fmt::format("extents below 2^63 in the shape of '{}'", name), value.dump());
      }
    }
    return Shape(value.get<std::vector<std::int64_t>>());
  }

  /// Sorts the slots by offset and requires that together they are the data, byte for byte.
  void check_layout(std::vector<Slot>& slots) const {
    std::ranges::sort(slots, {}, [](const Slot& slot) { return std::pair(slot.begin, slot.end); });
    std::uint64_t position = 0;
    for (const Slot& slot : slots) {
      if (slot.begin != position || slot.end < slot.begin) {
        fail(fmt::format("the data of '{}' from offset {} on", slot.name, position),
             fmt::format("offsets [{}, {}]", slot.begin, slot.end));
      }
      check_bytes(slot);
      position = slot.end;
    }
    if (position != data_bytes_) {
      fail(fmt::format("{} bytes of data", position), fmt::format("{} bytes", data_bytes_));
    }
  }

  void check_bytes(const Slot& slot) const {
    const bool empty = std::ranges::find(slot.shape, 0) != slot.shape.end();
    std::uint64_t bytes = empty ? 0 : size_of(slot.dtype);
    for (const std::int64_t extent : slot.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
        fail(fmt::format("a shape of '{}' that fits the file", slot.name), slot.shape.to_string());
      }
    }
    if (slot.end - slot.begin != bytes || slot.end > data_bytes_) {
      fail(fmt::format("{} bytes for '{}', {} of {}, within {} bytes of data", bytes, slot.name,
                       name_of(slot.dtype), slot.shape.to_string(), data_bytes_),
           fmt::format("offsets [{}, {}]", slot.begin, slot.end));
    }
  }

  Tensor read_tensor(const Slot& slot) {
    Tensor tensor(slot.shape, slot.dtype);
    if (file_.read(tensor.raw(), tensor.bytes()) < tensor.bytes()) {
      fail(fmt::format("the data of '{}'", slot.name), "the end of the file");
    }
    if (slot.dtype == DType::kBool) check_bools(slot.name, tensor);
    return tensor;
  }

  void check_bools(const std::string& name, const Tensor& tensor) const {
    const auto* bytes = static_cast<const unsigned char*>(tensor.raw());
    const auto* bad =
        std::find_if(bytes, bytes + tensor.bytes(), [](int byte) { return byte > 1; });
    if (bad != bytes + tensor.bytes()) {
      fail(fmt::format("booleans of 0 or 1 in '{}'", name), std::to_string(*bad));
    }
  }

  InputFile file_;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace

void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                       const Metadata& metadata) {
  const std::vector<const Entry*> order = in_file_order(tensors);
  const std::string header = header_text(order, metadata);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(header);
  for (const Entry* entry : order) file.write(entry->second.raw(), entry->second.bytes());
  file.commit();
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  return Reader(path).read();
}

}  // namespace demi::io
