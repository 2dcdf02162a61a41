#include "src/io/atomic_file.h"

#include <filesystem>
#include <stdexcept>
#include <string>

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
using demi::testing::message_of;
using demi::testing::put;
using demi::testing::TemporaryFolder;
using std::runtime_error;

TEST(AtomicFile, AppearsOnCommit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "weights";
  AtomicFile file(path);
  file.write("first, ");
  file.write("second");
  EXPECT_FALSE(std::filesystem::exists(path));
  file.commit();
  EXPECT_EQ(content_of(path), "first, second");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, ReplacesWhatStoodThere) {
  const TemporaryFolder folder;
  const auto path = put(folder.path() / "weights", "old and longer");
  write_file(path, "new");
  EXPECT_EQ(content_of(path), "new");
}

TEST(AtomicFile, LeavesNothingBehindWithoutCommit) {
  const TemporaryFolder folder;
  const auto path = put(folder.path() / "weights", "old");
  {
    AtomicFile file(path);
    file.write("half of the n");
  }
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, TwoWritersOfOnePathDoNotMix) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "weights";
  AtomicFile first(path);
  AtomicFile second(path);
  first.write("first");
  second.write("second");
  first.commit();
  EXPECT_EQ(content_of(path), "first");
  second.commit();
  EXPECT_EQ(content_of(path), "second");
}

TEST(AtomicFile, WorksInTheCurrentFolder) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_file("weights", "here");
  EXPECT_EQ(content_of(folder.path() / "weights"), "here");
  std::filesystem::current_path(before);
}

TEST(AtomicFile, AFullDiskKeepsTheOldFile) {
  const TemporaryFolder folder;
  const auto path = put(folder.path() / "weights", "old");
  const std::string big(100000, 'x');
  std::string message;
  {
    const FileSizeLimit limit(4096);
    message = message_of<runtime_error>([&] { write_file(path, big); });
  }
  EXPECT_EQ(message, "[file] could not write '" + path.string() + "': File too large.");
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, NamesAMissingFolder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "missing" / "weights";
  EXPECT_EQ(message_of<runtime_error>([&] { write_file(path, "x"); }),
            "[file] could not write '" + path.string() + "': No such file or directory.");
}

// A file as folder stands for every folder that cannot be written: unlike permissions, it also
// stops the superuser.
TEST(AtomicFile, NamesAFolderThatCannotBeWritten) {
  const TemporaryFolder folder;
  const auto path = put(folder.path() / "file", "x") / "weights";
  EXPECT_EQ(message_of<runtime_error>([&] { write_file(path, "x"); }),
            "[file] could not write '" + path.string() + "': Not a directory.");
}

TEST(AtomicFile, RefusesToReplaceAFolder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "taken";
  std::filesystem::create_directory(path);
  EXPECT_EQ(message_of<runtime_error>([&] { write_file(path, "x"); }),
            "[file] could not write '" + path.string() + "': Is a directory.");
  EXPECT_EQ(files_in(folder.path()), 1);
}

}  // namespace
}  // namespace demi::io
