#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "backend/checkpoint/dcp_folder.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> values_of(DcpReader& reader, const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(elements_of(reader.shape(name))));
  reader.read(name, 0, values);
  return values;
}

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

std::string refusal(const fs::path& folder) {
  try {
    DcpReader reader(folder);
    for (const std::string& name : reader.names()) values_of(reader, name);
    return "nothing";
  } catch (const Error& error) {
    return error.what();
  }
}

class Dcp : public ::testing::Test {
 protected:
  /// A copy of what PyTorch saved, with a file changed.
  fs::path copy_with(const std::string& file, std::string_view content) const {
    const fs::path folder = place_.path() / "copy";
    fs::remove_all(folder);
    fs::copy(saved_, folder, fs::copy_options::recursive);
    write_atomically(folder / file, content);
    return folder;
  }

  fs::path saved_ = fs::path(SOURCE_ROOT) / "tests/data/dcp/fsdp2";
  TemporaryFolder place_;
};

// The values are those of tests/data/dcp/README.md; 5 rows over 2 ranks are 3 and 2.
TEST_F(Dcp, WhatFsdp2SavedIsPutTogether) {
  DcpReader reader(saved_);
  EXPECT_THAT(reader.names(),
              ElementsAre("columns", "model.bias", "model.small", "model.weight", "step"));
  EXPECT_EQ(reader.shape("model.weight"), (Shape{5, 3}));
  EXPECT_EQ(values_of(reader, "model.weight"), counted(15));
  EXPECT_THAT(values_of(reader, "model.bias"), ElementsAre(-1, -2, -3));
  EXPECT_THAT(values_of(reader, "model.small"), ElementsAre(0.5, 1.5));
  EXPECT_THAT(values_of(reader, "step"), ElementsAre(7));
  std::vector<float> across(4);
  reader.read("model.weight", 7, across);
  EXPECT_THAT(across, ElementsAre(7, 8, 9, 10));
}

TEST_F(Dcp, ChunksOfColumnsAreInterleaved) {
  DcpReader reader(saved_);
  EXPECT_EQ(values_of(reader, "columns"), counted(12));
  std::vector<float> some(5);
  reader.read("columns", 1, some);
  EXPECT_THAT(some, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(Dcp, AFlippedBitIsFound) {
  std::string bytes = read_whole(saved_ / "__0_0.distcp");
  const std::string nine("\x00\x00\x80\x3f", 4);  // 1.0f, the second element of weight or columns
  const std::size_t at = bytes.find(nine);
  ASSERT_NE(at, std::string::npos);
  bytes[at] = '\x01';
  EXPECT_THAT(refusal(copy_with("__0_0.distcp", bytes)), HasSubstr("is damaged: its checksum is"));
}

TEST_F(Dcp, NothingIsExecuted) {
  const fs::path mark = place_.path() / "executed";
  const std::string command = "touch " + mark.string();
  std::string pickle =
      "\x80\x02"
      "cposix\nsystem\n(X";
  for (int i = 0; i < 4; ++i) pickle += static_cast<char>(command.size() >> (8 * i) & 0xff);
  pickle += command + "tR.";
  EXPECT_THAT(refusal(copy_with(".metadata", pickle)), HasSubstr("is no metadata of a checkpoint"));
  EXPECT_FALSE(fs::exists(mark));
}

TEST_F(Dcp, WhatIsCutOffIsRefused) {
  const std::string metadata = read_whole(saved_ / ".metadata");
  for (std::size_t bytes = 0; bytes < metadata.size(); bytes += 53)
    EXPECT_NE(refusal(copy_with(".metadata", metadata.substr(0, bytes))), "nothing") << bytes;
  const std::string data = read_whole(saved_ / "__1_0.distcp");
  for (std::size_t bytes = 0; bytes < data.size(); bytes += 501)
    EXPECT_NE(refusal(copy_with("__1_0.distcp", data.substr(0, bytes))), "nothing") << bytes;
}

TEST_F(Dcp, AFileOutsideOfTheFolderIsRefused) {
  std::string metadata = read_whole(saved_ / ".metadata");
  const std::size_t at = metadata.find("__0_0.distcp");
  ASSERT_NE(at, std::string::npos);
  metadata.replace(at, 12, "../../passwd");
  EXPECT_THAT(refusal(copy_with(".metadata", metadata)), HasSubstr("outside of the folder"));
}

}  // namespace
}  // namespace shardscope
