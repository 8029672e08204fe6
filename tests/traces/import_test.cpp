#include "traces/import/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "traces/import/imported_runs.h"

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

// 9 MiB that are no trace lie before anything is read: told after 4 MiB of them.
TEST(Import, CanBeStoppedInWhatAnArchiveHoldsBesideTraces) {
  std::string content = tar_of_a_huge("notes.txt", std::string(std::size_t{9} << 20, '\0'));
  const std::string path = testing::TempDir() + std::to_string(::getpid()) + ".stopped_test.tar";
  std::ofstream(path, std::ios::binary) << content;
  std::vector<std::int64_t> told;
  const auto stop = [&](const ImportedTrace&, std::int64_t bytes) {
    told.push_back(bytes);
    return true;
  };
  try {
    import_files(path, {.progress = stop});
    FAIL() << "read to the end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::interrupted);
  }
  std::filesystem::remove(path);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_GE(told.front(), 4 << 20);
  EXPECT_LT(told.front(), 6 << 20);
}

/// A trace of one event that lasts a second.
ImportedTrace taken(const std::string& file, std::optional<int> rank, std::optional<int> world,
                    std::int64_t second = 0) {
  ImportedTrace trace;
  trace.file = file;
  trace.rank = rank;
  trace.world = world;
  trace.base_ns = second * 1'000'000'000;
  trace.events.start_ns.push_back(0);
  trace.events.duration_ns.push_back(1'000'000'000);
  return trace;
}

std::vector<std::vector<std::size_t>> runs_of_these(auto... traces) {
  std::vector<ImportedTrace> all;
  (all.push_back(std::move(traces)), ...);
  return runs_of(all);
}

TEST(RunsOf, RanksOfOneWorldAreOneRun) {
  using Runs = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(runs_of_these(taken("a", 0, 2), taken("b", 1, 2)), (Runs{{0, 1}}));
  EXPECT_EQ(runs_of_these(taken("a", 0, 2), taken("b", 0, 2)), (Runs{{0}, {1}}));
  EXPECT_EQ(runs_of_these(taken("a", 0, 2), taken("b", 1, 4)), (Runs{{0}, {1}}));
  EXPECT_EQ(runs_of_these(taken("a", 0, 2), taken("b", {}, {})), (Runs{{0}, {1}}));
}

TEST(RunsOf, FilesWithoutRanksAreJudgedByTheirNames) {
  using Runs = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(
      runs_of_these(taken("host_7.pt.trace.json", {}, {}), taken("host_12.pt.trace.json", {}, {})),
      (Runs{{0, 1}}));
  EXPECT_EQ(runs_of_these(taken("resnet.json", {}, {}), taken("bert.json", {}, {})),
            (Runs{{0}, {1}}));
}

// Two windows of a profiler that runs again and again: each rank's go with the others' of that
// time.
TEST(RunsOf, TimesTellWindowsApart) {
  using Runs = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(runs_of_these(taken("0.1", 0, 2, 1000), taken("0.2", 0, 2, 1010),
                          taken("1.1", 1, 2, 1001), taken("1.2", 1, 2, 1011)),
            (Runs{{0, 2}, {1, 3}}));
  EXPECT_EQ(runs_of_these(taken("a", 0, 2, 1000), taken("b", 1, 2, 5000)), (Runs{{0}, {1}}));
}

}  // namespace
}  // namespace shardscope
