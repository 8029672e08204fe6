#include "backend/recorder/device/held_lines.h"

#include <gtest/gtest.h>

namespace shardscope::recorder {
namespace {

using Lines = std::vector<std::string>;

Lines written(const Lines& lines) {
  Views views;
  Lines result;
  const auto release = [&] {
    for (const std::string& line : views.lines()) result.push_back(line);
  };
  for (const std::string& line : lines) {
    if (views.take(line)) continue;
    release();
    if (!views.take(line)) result.push_back(line);
  }
  release();
  return result;
}

const std::string narrow = "0\top\t1\t2\t-1\t0\n", slice = "0\top\t3\t4\t-1\t0\n",
                  view = "0\tend\t5\tview\n", end = "0\tend\t5\n",
                  kernel = "0\tkernel\t0\t6\t1,1,1\t1,1,1\t0\n";

TEST(HeldLines, OperatorsThatOnlyMakeViewsAreOneLine) {
  EXPECT_EQ(written({narrow, slice, view, view, narrow, slice, view, slice, view, view}),
            (Lines{"0\tviews\t3\n"}));
}

TEST(HeldLines, WhatDoesMoreIsWrittenWithTheViewsBeforeAndInsideIt) {
  EXPECT_EQ(written({slice, view, narrow, slice, view, slice, view, kernel, slice, view, end}),
            (Lines{"0\tviews\t1\n", narrow, "0\tviews\t2\n", kernel, "0\tviews\t1\n", end}));
  EXPECT_EQ(written({narrow, end, slice, kernel, end}), (Lines{narrow, end, slice, kernel, end}));
}

TEST(HeldLines, WhatOtherThreadsDoComesBehindWhatIsHeld) {
  const std::string other = "1\top\t1\t2\t-1\t0\n", its_end = "1\tend\t5\tview\n";
  EXPECT_EQ(written({narrow, slice, view, other, its_end, view, kernel}),
            (Lines{narrow, "0\tviews\t1\n", "1\tviews\t1\n", view, kernel}));
}

TEST(HeldLines, AViewThatAutogradNumbersIsWritten) {
  const std::string numbered = "0\top\t1\t2\t17\t0\n";
  EXPECT_EQ(written({numbered, slice, view, view}), (Lines{numbered, "0\tviews\t1\n", view}));
}

}  // namespace
}  // namespace shardscope::recorder
