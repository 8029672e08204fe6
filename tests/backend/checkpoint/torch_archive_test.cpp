#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "backend/checkpoint/pickle_text.h"
#include "backend/checkpoint/torch_archive.h"
#include "backend/checkpoint/torch_archive_writer.h"
#include "backend/checkpoint/torch_files.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t all_wide = -1;
constexpr std::int64_t as_usual = 0xfffffffe;

/// Elements 100 * number + 0, 1, ...
FloatSource counted(int number, std::int64_t elements) {
  return {.elements = elements, .read = [number](std::int64_t first, std::span<float> out) {
            for (std::size_t i = 0; i < out.size(); ++i)
              out[i] = static_cast<float>(100 * number + first) + static_cast<float>(i);
          }};
}

class Archive : public ::testing::Test {
 protected:
  /// {"a": of 2 x 3, "b": of 1}.
  std::string two_tensors(std::int64_t largest_narrow) const {
    AtomicFile file(path_);
    const std::vector<FloatSource> sources{counted(0, 6), counted(1, 1)};
    const std::int64_t bytes =
        write_torch_archive(file,
                            pickled_dict(pickled("a") + pickled_tensor({2, 3}, 0) + pickled("b") +
                                         pickled_tensor({1}, 1)),
                            sources, largest_narrow);
    file.commit();
    EXPECT_EQ(static_cast<std::int64_t>(fs::file_size(path_)), bytes);
    return read_whole(path_);
  }

  std::vector<float> values(const std::string& key) const {
    const PositionedFile file(path_);
    const TorchArchive archive(file, 0, file.bytes());
    const ArchivedTensor tensor =
        archive.tensor(archive.pickle().find(archive.pickle().root(), key).value());
    std::vector<float> values(static_cast<std::size_t>(elements_of(tensor.shape)));
    std::vector<std::byte> scratch;
    check_storage(file, tensor, key, scratch);
    read_floats(file, tensor, 0, values, scratch);
    return values;
  }

  std::string refusal_of(const std::string& bytes) const {
    write_atomically(path_, bytes);
    try {
      values("a");
      return "nothing";
    } catch (const Error& error) {
      return error.what();
    }
  }

  TemporaryFolder place_;
  fs::path path_ = place_.path() / "file.pt";
};

std::size_t found(const std::string& bytes, std::string_view what, std::size_t from = 0) {
  const std::size_t at = bytes.find(what, from);
  EXPECT_NE(at, std::string::npos) << what;
  return at;
}

std::string number(std::uint64_t value, int width) {
  std::string text;
  for (int i = 0; i < width; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

/// Where the entry of a member begins in the directory. Its fields (APPNOTE.TXT 4.3.12): the size
/// at 24, the local header's place at 42, the name at 46.
std::size_t entry_of(const std::string& bytes, const std::string& member) {
  return bytes.rfind(member) - 46;
}

TEST_F(Archive, HoldsTensorsSideBySide) {
  two_tensors(as_usual);
  EXPECT_THAT(values("a"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values("b"), ElementsAre(100));
}

TEST_F(Archive, StoragesAreAlignedAsTorchAlignsThem) {
  two_tensors(as_usual);
  const PositionedFile file(path_);
  const TorchArchive archive(file, 0, file.bytes());
  for (const char* key : {"a", "b"})
    EXPECT_EQ(archive.tensor(*archive.pickle().find(archive.pickle().root(), key)).offset % 64, 0);
}

// APPNOTE.TXT 4.5.3 and 4.3.14: 32 bits of ones stand for what the extra field 1 has in 64.
TEST_F(Archive, WideNumbersAreWrittenAndReadAsZip64HasThem) {
  const std::string bytes = two_tensors(all_wide);
  EXPECT_THAT(values("a"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values("b"), ElementsAre(100));
  const std::size_t entry = entry_of(bytes, "archive/data/0");
  EXPECT_EQ(bytes.substr(entry, 4), "PK\x01\x02");
  EXPECT_EQ(bytes.substr(entry + 20, 8), std::string(8, '\xff'));
  EXPECT_EQ(bytes.substr(entry + 42, 4), std::string(4, '\xff'));
  const std::size_t extra = entry + 46 + std::string("archive/data/0").size();
  EXPECT_EQ(bytes.substr(extra, 20), number(1, 2) + number(24, 2) + number(24, 8) + number(24, 8));
  const std::size_t local = bytes.find(std::string("PK\x03\x04"), 1);
  ASSERT_NE(local, std::string::npos);
  EXPECT_EQ(bytes.substr(bytes.size() - 22, 4), "PK\x05\x06");
  EXPECT_EQ(bytes.substr(bytes.size() - 42, 4), "PK\x06\x07");
  EXPECT_EQ(bytes.substr(bytes.size() - 98, 4), "PK\x06\x06");
}

TEST_F(Archive, DamagedWideNumbersAreRefused) {
  const std::string whole = two_tensors(all_wide);
  const std::size_t entry = entry_of(whole, "archive/data/0");
  const std::size_t wide = entry + 46 + std::string("archive/data/0").size() + 4;
  std::string bytes = whole;
  bytes.replace(wide, 16, std::string(16, '\xff'));  // a size of -1
  EXPECT_THAT(refusal_of(bytes), HasSubstr("directory is damaged"));
  bytes = whole;
  bytes.replace(wide, 16, number(std::uint64_t{1} << 62, 8) + number(std::uint64_t{1} << 62, 8));
  EXPECT_THAT(refusal_of(bytes), HasSubstr("lies outside"));
  bytes = whole;
  bytes.replace(wide + 16, 8, number(std::uint64_t{1} << 62, 8));  // its place
  EXPECT_THAT(refusal_of(bytes), HasSubstr("lies outside"));
  bytes = whole;
  bytes.replace(wide - 2, 2, number(0, 2));  // a field without numbers
  EXPECT_THAT(refusal_of(bytes), HasSubstr("directory is damaged"));
  bytes = whole;
  bytes.replace(whole.size() - 34, 8, number(whole.size(), 8));  // where the wide end is
  EXPECT_THAT(refusal_of(bytes), HasSubstr("the end of the archive is damaged"));
  bytes = whole;
  bytes.replace(whole.size() - 58, 8, number(std::uint64_t{1} << 62, 8));  // the directory's bytes
  EXPECT_THAT(refusal_of(bytes), HasSubstr("directory lies outside"));
}

TEST_F(Archive, MembersThatOverlapAreRefused) {
  std::string bytes = two_tensors(as_usual);
  const std::size_t first = entry_of(bytes, "archive/data/0"),
                    second = entry_of(bytes, "archive/data/1");
  bytes.replace(second + 42, 4, bytes.substr(first + 42, 4));
  EXPECT_THAT(refusal_of(bytes), HasSubstr("files of the archive overlap"));
}

TEST_F(Archive, SizesOutOfBoundsAreRefused) {
  const std::string whole = two_tensors(as_usual);
  const std::size_t entry = entry_of(whole, "archive/data/1");
  std::string bytes = whole;
  bytes.replace(entry + 20, 8, number(0x7fffffff, 4) + number(0x7fffffff, 4));
  EXPECT_THAT(refusal_of(bytes), HasSubstr("lies outside"));
  bytes = whole;
  bytes.replace(entry + 42, 4, number(0xfffffff0, 4));
  EXPECT_THAT(refusal_of(bytes), HasSubstr("lies outside"));
  bytes = whole;
  bytes.replace(entry_of(whole, "archive/data/0") + 20, 8, number(20, 4) + number(20, 4));
  EXPECT_THAT(refusal_of(bytes), HasSubstr("larger than its storage"));  // 6 floats are 24 bytes
  bytes = whole;
  bytes.replace(entry + 20, 4, number(3, 4));
  EXPECT_THAT(refusal_of(bytes), HasSubstr("compressed"));
  bytes = whole;
  bytes.replace(whole.size() - 10, 4, number(0xffffff, 4));  // the directory's bytes
  EXPECT_THAT(refusal_of(bytes), HasSubstr("directory lies outside"));
}

TEST_F(Archive, APickleThatChangedIsRefused) {
  std::string bytes = two_tensors(as_usual);
  // The 2 of the shape becomes 1: still a pickle, of another tensor.
  const std::size_t shape = found(bytes, pickled(std::int64_t{2}) + pickled(std::int64_t{3}));
  bytes[shape + 1] = '\x01';
  EXPECT_THAT(refusal_of(bytes), HasSubstr("its pickle is damaged: its checksum is"));
}

// torch 2.15 writes 0 for each member after torch.serialization.set_crc32_options(False).
TEST_F(Archive, WithoutAnyChecksumIsReadAndWithSomeIsNot) {
  const std::vector<std::string> members{"archive/data.pkl", "archive/byteorder", "archive/version",
                                         "archive/data/0", "archive/data/1"};
  std::string bytes = two_tensors(as_usual);
  const std::string byteorder = bytes.substr(entry_of(bytes, "archive/byteorder") + 16, 4);
  for (const std::string& member : members)
    bytes.replace(entry_of(bytes, member) + 16, 4, number(0, 4));
  EXPECT_EQ(refusal_of(bytes), "nothing");
  EXPECT_THAT(values("a"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values("b"), ElementsAre(100));
  bytes.replace(entry_of(bytes, "archive/byteorder") + 16, 4, byteorder);
  EXPECT_THAT(refusal_of(bytes), HasSubstr("its pickle is damaged"));
}

int open_below(const fs::path& folder) {
  int open = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
    if (fs::read_symlink(entry.path(), ignored).parent_path() == folder) ++open;
  return open;
}

TEST_F(Archive, FewFilesAreOpenAtOnce) {
  TorchFiles files(2);
  for (int i = 0; i < 5; ++i) {
    const fs::path path = place_.path() / std::to_string(i);
    AtomicFile file(path);
    const FloatSource source = counted(i, 3);
    write_torch_archive(file, pickled_tensor({3}, 0), std::span(&source, 1));
    file.commit();
    files.open(path);
  }
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < 5; ++i) {
      const ArchivedTensor tensor = files.archive(i).tensor(files.pickle(i).root());
      std::vector<float> values(3);
      files.read("t", {{.first = 0, .elements = 3, .file = i, .tensor = tensor}}, 0, values);
      EXPECT_EQ(values[1], static_cast<float>(100 * i + 1));
      EXPECT_LE(open_below(fs::canonical(place_.path())), 2);
    }
  // A file that another job has written again meanwhile.
  write_atomically(place_.path() / "0", "short");
  std::vector<float> values(3);
  const ArchivedTensor tensor = files.archive(0).tensor(files.pickle(0).root());
  for (int again = 0; again < 2; ++again) {
    try {
      files.read("t", {{.first = 0, .elements = 3, .file = 0, .tensor = tensor}}, 0, values);
      FAIL() << "was read";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("and has 5 now"));
    }
  }
}

}  // namespace
}  // namespace shardscope
