#include "core/format/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "core/base/error.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "atomic_file_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  int files() const { return static_cast<int>(std::distance(fs::directory_iterator(folder_), {})); }

  static std::string complaint(const fs::path& path) {
    try {
      write_atomically(path, "new");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::outside);
      return error.what();
    }
    return "no complaint";
  }

  fs::path folder_;
};

TEST_F(AtomicFileTest, ReplacesAnOlderFile) {
  const fs::path path = folder_ / "a.json";
  write_atomically(path, "old, and longer");
  write_atomically(path, "new");
  EXPECT_EQ(read_whole(path), "new");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, WithoutCommitNothingIsLeft) {
  write_atomically(folder_ / "a", "old");
  {
    AtomicFile file(folder_ / "a");
    file.write("half");
    EXPECT_EQ(files(), 2);
  }
  EXPECT_EQ(read_whole(folder_ / "a"), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, AMissingFolderIsNamed) {
  EXPECT_THAT(complaint(folder_ / "none" / "a"),
              HasSubstr("none/a: cannot be written: No such file or directory"));
}

TEST_F(AtomicFileTest, AFolderIsNotReplaced) {
  fs::create_directory(folder_ / "a");
  EXPECT_THAT(complaint(folder_ / "a"), HasSubstr("Is a directory"));
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, AFullDiskLeavesNoTemporary) {
  EXPECT_THAT(complaint("/dev/full"),
              HasSubstr("/dev/full: cannot be written: No space left on device"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(AtomicFileTest, ALimitInTheMiddleOfAWriteLeavesTheOlderFile) {
  write_atomically(folder_ / "a", "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 100, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    write_atomically(folder_ / "a", std::string(1000, 'x'));
  } catch (const Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_EQ(read_whole(folder_ / "a"), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, ReadingRespectsTheLimitAndKnowsFolders) {
  write_atomically(folder_ / "a", std::string(10000, 'x'));
  EXPECT_EQ(read_whole(folder_ / "a", 10000).size(), 10000u);
  EXPECT_THROW(read_whole(folder_ / "a", 9999), Error);
  EXPECT_THROW(read_whole("/dev/zero", 100000), Error);
  EXPECT_THROW(read_whole(folder_), Error);
}

TEST_F(AtomicFileTest, CreateFolderMakesAllOfThePath) {
  create_folder(folder_ / "x" / "y");
  create_folder(folder_ / "x" / "y");
  EXPECT_TRUE(fs::is_directory(folder_ / "x" / "y"));
  write_atomically(folder_ / "file", "");
  EXPECT_THROW(create_folder(folder_ / "file"), Error);
  EXPECT_THROW(create_folder(folder_ / "file" / "x"), Error);
}

}  // namespace
}  // namespace shardscope
