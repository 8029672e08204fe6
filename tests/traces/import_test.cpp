#include "traces/import/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"

namespace shardscope {
namespace {

using testing::HasSubstr;

/// A tar header of a file of 2^45 bytes, and the first of them.
std::string tar_of_a_huge(const std::string& name, std::string_view begin) {
  std::string text(512, '\0');
  text.replace(0, name.size(), name);
  text[124] = '\x80';      // a size in base 256, as octal ends at 8 GiB
  text[124 + 6] = '\x20';  // 2^5 of 256^5
  text[156] = '0';
  text.replace(257, 5, "ustar");
  return text += begin;
}

std::string complaint_about(const std::string& content) {
  const std::string path =
      testing::TempDir() + std::to_string(::getpid()) + ".import_test.tar";  // of this test alone
  std::ofstream(path, std::ios::binary) << content;
  std::string complaint;
  try {
    import_files(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::outside);
    complaint = error.what();
  }
  std::filesystem::remove(path);
  return complaint;
}

// A snapshot takes 4 times its pickle, 2^47 bytes, a trace 60 of 220 bytes of text, 2^45 / 220 *
// 60: each member is foreseen by what it is.
TEST(Import, ForeseesTheMemoryOfASnapshotInAnArchive) {
  const std::string complaint = complaint_about(tar_of_a_huge("a.pickle", "\x80\x04."));
  EXPECT_THAT(complaint, HasSubstr("import_test.tar:a.pickle"));
  EXPECT_THAT(complaint, HasSubstr("about " + rounded_text(Bytes{std::int64_t{1} << 47})));
}

TEST(Import, ForeseesTheMemoryOfATraceInAnArchive) {
  const std::string complaint = complaint_about(tar_of_a_huge("a.json", R"({"traceEvents": [)"));
  EXPECT_THAT(complaint,
              HasSubstr("about " + rounded_text(Bytes{(std::int64_t{1} << 45) / 220 * 60})));
}

}  // namespace
}  // namespace shardscope
