#include "src/io/safetensors.h"

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/file_content.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"

namespace demi::io {
namespace {

using demi::testing::content_of;
using demi::testing::files_in;
using demi::testing::FileSizeLimit;
using demi::testing::golden_path;
using demi::testing::message_of;
using demi::testing::put;
using demi::testing::TemporaryFolder;
using std::invalid_argument;
using std::runtime_error;

/// The values of tests/golden/make_safetensors.py.
TensorMap reference_tensors() {
  TensorMap tensors;
  tensors["conv/kernel"] =
      Tensor::from(std::vector<float>{0.5f, -1.25f, 3.0f, 1e-7f, 65504.0f, -0.0f}, {2, 3});
  tensors["double"] = Tensor::from(std::vector<double>{0.1}, {1});
  tensors["half"] =
      Tensor::from(std::vector<Float16>{Float16::from_bits(0x3c00), Float16::from_bits(1),
                                        Float16::from_bits(0x7c00)},
                   {3});
  tensors["brain"] = Tensor::from(
      std::vector<BFloat16>{BFloat16::from_bits(0x3f80), BFloat16::from_bits(0xc049)}, {2});
  tensors["counter"] = Tensor::scalar(-(std::int64_t{1} << 40));
  tensors["labels"] = Tensor::from(std::vector<std::int32_t>{0, -1, 2147483647, 7}, {4});
  tensors["pixels"] = Tensor::from(std::vector<std::uint8_t>{0, 1, 127, 128, 255}, {1, 5});
  tensors["mask"] = Tensor::from(std::vector<float>{1, 0, 1}, {3}).to(boolean);
  tensors["empty"] = Tensor({0, 4}, float32);
  return tensors;
}

void expect_equal(const TensorMap& actual, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    const Tensor& other = actual.at(name);
    EXPECT_EQ(other.shape(), tensor.shape()) << name;
    EXPECT_EQ(other.dtype(), tensor.dtype()) << name;
    ASSERT_EQ(other.bytes(), tensor.bytes()) << name;
    const auto* bytes = static_cast<const char*>(tensor.raw());
    const auto* other_bytes = static_cast<const char*>(other.raw());
    EXPECT_TRUE(std::equal(bytes, bytes + tensor.bytes(), other_bytes)) << name;
  }
}

TEST(Safetensors, ReadsWhatTheReferenceImplementationWrote) {
  const SafetensorsFile file = read_safetensors(golden_path("reference.safetensors"));
  expect_equal(file.tensors, reference_tensors());
  EXPECT_EQ(file.metadata, (Metadata{{"format", "demi"}}));
}

TEST(Safetensors, WritesTheBytesOfTheReferenceImplementation) {
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "out", reference_tensors(), {{"format", "demi"}});
  EXPECT_EQ(content_of(folder.path() / "out"), content_of(golden_path("reference.safetensors")));
}

TEST(Safetensors, RoundTripsAnEmptyFileAndOddNames) {
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "none", {});
  const SafetensorsFile none = read_safetensors(folder.path() / "none");
  EXPECT_TRUE(none.tensors.empty());
  EXPECT_TRUE(none.metadata.empty());

  TensorMap odd;
  odd["a \"quoted\" name\n"] = Tensor::scalar(1.0f);
  odd["größe/∂w"] = Tensor::scalar(2.0f);
  odd[""] = Tensor::scalar(3.0f);
  write_safetensors(folder.path() / "odd", odd, {{"key", "välue"}});
  const SafetensorsFile file = read_safetensors(folder.path() / "odd");
  expect_equal(file.tensors, odd);
  EXPECT_EQ(file.metadata, (Metadata{{"key", "välue"}}));
}

TEST(Safetensors, RefusesNamesItCannotStore) {
  const TemporaryFolder folder;
  TensorMap reserved;
  reserved["__metadata__"] = Tensor::scalar(1.0f);
  EXPECT_THROW(write_safetensors(folder.path() / "x", reserved), invalid_argument);
  TensorMap not_utf8;
  not_utf8["\xff\xfe"] = Tensor::scalar(1.0f);
  EXPECT_THROW(write_safetensors(folder.path() / "x", not_utf8), invalid_argument);
  EXPECT_EQ(files_in(folder.path()), 0);
}

TEST(Safetensors, AFullDiskKeepsTheOldFile) {
  const TemporaryFolder folder;
  const auto path = put(folder.path() / "weights", "old");
  TensorMap tensors;
  tensors["w"] = Tensor({1000, 1000}, float32);
  std::string message;
  {
    const FileSizeLimit limit(100000);
    message = message_of<runtime_error>([&] { write_safetensors(path, tensors); });
  }
  EXPECT_EQ(message, "[file] could not write '" + path.string() + "': File too large.");
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(files_in(folder.path()), 1);
}

class BadSafetensors : public ::testing::Test {
 protected:
  /// The complaint about a file of these bytes, with the path replaced by "PATH".
  std::string complaint(const std::string& content) {
    const auto path = put(folder_.path() / "bad", content);
    std::string message =
        message_of<invalid_argument>([&] { static_cast<void>(read_safetensors(path)); });
    const std::size_t at = message.find(path.string());
    if (at != std::string::npos) message.replace(at, path.string().size(), "PATH");
    return message;
  }

  /// The complaint about a file with this header and `bytes` bytes of data.
  std::string complaint(const std::string& header, std::size_t bytes) {
    const std::uint64_t length = header.size();
    std::string content(reinterpret_cast<const char*>(&length), sizeof length);
    return complaint(content + header + std::string(bytes, '\2'));
  }

  TemporaryFolder folder_;
};

TEST_F(BadSafetensors, MissingFile) {
  const auto path = folder_.path() / "missing";
  EXPECT_EQ(message_of<runtime_error>([&] { static_cast<void>(read_safetensors(path)); }),
            "[file] could not read '" + path.string() + "': No such file or directory.");
}

TEST_F(BadSafetensors, EveryTruncation) {
  const std::string whole = content_of(golden_path("reference.safetensors"));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string message = complaint(whole.substr(0, length));
    EXPECT_EQ(message.find("[safetensors] expected"), 0u) << length << ": " << message;
    EXPECT_NE(message.find("'PATH'. Received: "), std::string::npos) << length << ": " << message;
  }
}

TEST_F(BadSafetensors, Lengths) {
  EXPECT_EQ(complaint("1234567"),
            "[safetensors] expected the length of the header in 8 bytes in 'PATH'. Received: 7 "
            "bytes.");
  EXPECT_EQ(complaint(std::string(8, '\x7f') + "{}"),
            "[safetensors] expected a header of at most 2 bytes in 'PATH'. Received: a length of "
            "9187201950435737471.");
  EXPECT_EQ(complaint("{}", 3),
            "[safetensors] expected 0 bytes of data in 'PATH'. Received: 3 bytes.");
}

TEST_F(BadSafetensors, Headers) {
  EXPECT_EQ(complaint("[]", 0),
            "[safetensors] expected a JSON object as header in 'PATH'. Received: array.");
  EXPECT_NE(complaint("{\"a\":", 0).find("expected a header of JSON in 'PATH'"), std::string::npos);
  EXPECT_NE(complaint("{\"a\":{}}", 0).find("expected dtype, shape and data_offsets for 'a'"),
            std::string::npos);
  EXPECT_EQ(complaint(R"({"__metadata__":{"a":1}})", 0),
            "[safetensors] expected an object of strings under '__metadata__' in 'PATH'. Received: "
            "{\"a\":1}.");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                      R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                      1),
            "[safetensors] expected each name once in 'PATH'. Received: 'a' twice.");
}

TEST_F(BadSafetensors, Entries) {
  EXPECT_EQ(complaint(R"({"a":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[0,1]}})", 1),
            "[safetensors] expected a dtype among F64, F32, F16, BF16, I64, I32, U8, BOOL for 'a' "
            "in 'PATH'. Received: F8_E5M2.");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1),
            "[safetensors] expected at most 8 extents >= 0 as the shape of 'a' in 'PATH'. "
            "Received: [-1].");
  EXPECT_EQ(
      complaint(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1),
      "[safetensors] expected at most 8 extents >= 0 as the shape of 'a' in 'PATH'. "
      "Received: [1,1,1,1,1,1,1,1,1].");
  EXPECT_EQ(
      complaint(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1),
      "[safetensors] expected extents below 2^63 in the shape of 'a' in 'PATH'. Received: "
      "[18446744073709551615].");
  EXPECT_EQ(
      complaint(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0),
      "[safetensors] expected a shape of 'a' that fits the file in 'PATH'. Received: "
      "[4611686018427387904, 4].");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1),
            "[safetensors] expected two offsets for 'a' in 'PATH'. Received: [0].");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,-1]}})", 1),
            "[safetensors] expected two offsets for 'a' in 'PATH'. Received: [0,-1].");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", 1),
            "[safetensors] expected booleans of 0 or 1 in 'a' in 'PATH'. Received: 2.");
}

TEST_F(BadSafetensors, Offsets) {
  EXPECT_EQ(complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
            "[safetensors] expected 8 bytes for 'a', F32 of [2], within 4 bytes of data in 'PATH'. "
            "Received: offsets [0, 4].");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
            "[safetensors] expected 8 bytes for 'a', F32 of [2], within 4 bytes of data in 'PATH'. "
            "Received: offsets [0, 8].");
  const std::string first = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":)";
  EXPECT_EQ(complaint(first + R"({"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3),
            "[safetensors] expected the data of 'b' from offset 2 on in 'PATH'. Received: offsets "
            "[1, 3].");
  EXPECT_EQ(complaint(first + R"({"dtype":"U8","shape":[2],"data_offsets":[3,5]}})", 5),
            "[safetensors] expected the data of 'b' from offset 2 on in 'PATH'. Received: offsets "
            "[3, 5].");
  EXPECT_EQ(complaint(first + R"({"dtype":"U8","shape":[2],"data_offsets":[2,0]}})", 5),
            "[safetensors] expected the data of 'b' from offset 2 on in 'PATH'. Received: offsets "
            "[2, 0].");
}

}  // namespace
}  // namespace demi::io
