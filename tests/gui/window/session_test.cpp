#include "gui/window/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "tests/gui/run_samples.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::ScratchFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Session full_session(const ScratchFolder& folder) {
  return {.open = {folder / "runs/full_shard", folder / "runs/zero1"},
          .a = folder / "runs/zero1",
          .b = folder / "runs/full_shard",
          .time_mode = TimeMode::unit,
          .step = 2,
          .visible = TimeRange{.begin = -1.5, .end = 173574699.25},
          .cursor_a = 12,
          .cursor_b = 0.1,
          .cursor_range = TimeRange{.begin = 3, .end = 4},
          .layout = "AAAA/wAAAAD9+/==",
          .appearance = AppearanceChoice::dark,
          .notes = {"peak \"here\"\n", "\u00e9t\u00e9"},
          .time_notes = {{.scenario = folder / "runs/zero1",
                          .side = SideKind::predicted,
                          .rank = 3,
                          .clock_ns = 1234.5,
                          .text = "late \"here\""}}};
}

std::string error_of(const std::filesystem::path& file) {
  try {
    read_session(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SessionFile, IsReadBackAsItWasWritten) {
  const ScratchFolder folder;
  const auto file = folder / "demo.shardscope-session.json";
  write_session(full_session(folder), file);
  const ReadSession read = read_session(file);
  EXPECT_EQ(read.session, full_session(folder));
  EXPECT_THAT(read.complaints, IsEmpty());
  write_session({}, file);
  EXPECT_EQ(read_session(file).session, Session{});
}

// Paths are relative: a folder that is moved with its session opens where it is now.
TEST(SessionFile, MovesWithItsData) {
  const ScratchFolder folder, other;
  const auto file = folder / "demo.shardscope-session.json";
  write_session(full_session(folder), file);
  EXPECT_EQ(read_whole(file).find(folder.path().string()), std::string::npos);
  const auto moved = other / "demo.shardscope-session.json";
  std::filesystem::copy(file, moved);
  EXPECT_EQ(read_session(moved).session.open[0], other / "runs/full_shard");
}

TEST(SessionFile, WhatMakesNoSenseIsToldAndTheRestRead) {
  const ScratchFolder folder;
  const auto file = folder / "s.shardscope-session.json";
  write_atomically(file, R"({"schema": "shardscope.session/1", "open": ["run"], "a": 7,
    "time_mode": "minutes", "visible_ns": [5, 5], "cursors_ns": {"a": 1e300},
    "appearance": "pink", "colour": "blue", "notes": "no list"})");
  const ReadSession read = read_session(file);
  EXPECT_EQ(read.session, Session{.open = {folder / "run"}});
  ASSERT_EQ(read.complaints.size(), 7U);
  EXPECT_THAT(read.complaints[0], HasSubstr("s.shardscope-session.json:1: a"));
  EXPECT_THAT(read.complaints[1], HasSubstr("expected time, step or unit, got \"minutes\""));
  EXPECT_THAT(read.complaints[5], HasSubstr("colour: is not known"));
  for (const std::string& line : read.complaints)
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
}

TEST(SessionFile, ANoteOfNoSideIsToldAndTheOthersOfItsListArePassedOver) {
  const ScratchFolder folder;
  const auto file = folder / "s.shardscope-session.json";
  write_atomically(file, R"({"schema": "shardscope.session/1", "timeline_notes":
    [{"of": "run", "side": "both", "rank": 0, "clock_ns": 1, "text": "x"}]})");
  const ReadSession read = read_session(file);
  EXPECT_THAT(read.session.time_notes, IsEmpty());
  ASSERT_EQ(read.complaints.size(), 1U);
  EXPECT_THAT(read.complaints[0], HasSubstr("expected predicted or profiled, got \"both\""));
}

TEST(SessionFile, ThatIsNoneIsRefused) {
  const ScratchFolder folder;
  const auto file = folder / "s.shardscope-session.json";
  EXPECT_THAT(error_of(file), HasSubstr("s.shardscope-session.json"));
  for (const char* text :
       {"", "{", "[]", "7", "{\"schema\": \"shardscope.simulate/1\"}", "{\"schema\": 1}"}) {
    write_atomically(file, text);
    EXPECT_THAT(error_of(file), HasSubstr("s.shardscope-session.json")) << text;
  }
  write_atomically(file, std::string(300, '[') + std::string(300, ']'));
  EXPECT_FALSE(error_of(file).empty());
}

TEST(SessionFile, OfAMillionPathsIsNotBelieved) {
  const ScratchFolder folder;
  const auto file = folder / "s.shardscope-session.json";
  std::string open;
  for (int i = 0; i < 300; ++i) open += "\"a\",";
  open.back() = ' ';
  write_atomically(file, "{\"schema\": \"shardscope.session/1\", \"open\": [" + open + "]}");
  const ReadSession read = read_session(file);
  EXPECT_THAT(read.session.open, IsEmpty());
  EXPECT_THAT(read.complaints.front(), HasSubstr("300 entries"));
}

TEST(SessionFile, IsKnownByItsName) {
  EXPECT_TRUE(is_session_file("runs/demo.shardscope-session.json"));
  EXPECT_FALSE(is_session_file("runs/session.json"));
}

}  // namespace
}  // namespace shardscope::gui
