#include "gui/data/run_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace shardscope::gui {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MetricsTailTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  void append(const std::string& text) {
    std::ofstream(file_, std::ios::app | std::ios::binary) << text;
  }

  std::filesystem::path file_ = std::filesystem::temp_directory_path() /
                                ("metrics." + std::to_string(getpid()) +
                                 ::testing::UnitTest::GetInstance()->current_test_info()->name());
  MetricsTail tail_{file_};
};

TEST_F(MetricsTailTest, AFileThatIsNotThereYetHasNoPoints) { EXPECT_THAT(tail_.read(), IsEmpty()); }

TEST_F(MetricsTailTest, ALineCountsWhenItIsWhole) {
  append(R"({"step": 1, "loss": 5.5, "elapsed_s": 0.25})"
         "\n"
         R"({"step": 2, "lo)");
  EXPECT_THAT(tail_.read(), ElementsAre(RunPoint{1, 5.5, 0.25}));
  EXPECT_THAT(tail_.read(), IsEmpty());
  append("ss\": 4, \"elapsed_s\": 0.5}\n");
  EXPECT_THAT(tail_.read(), ElementsAre(RunPoint{2, 4, 0.5}));
}

TEST_F(MetricsTailTest, AShorterFileIsAnotherRuns) {
  append("{\"step\": 1, \"loss\": 5, \"elapsed_s\": 0.25}\nno metrics\n");
  tail_.read();
  std::filesystem::remove(file_);
  append("{\"step\": 1, \"loss\": 3, \"elapsed_s\": 1}\n");
  EXPECT_THAT(tail_.read(), ElementsAre(RunPoint{1, 3, 1}));
}

TEST(RunMonitor, AStepTakesWhatPassedSinceTheOneBefore) {
  const std::vector<RunPoint> points{{1, 0, 0.25}, {2, 0, 0.75}};
  EXPECT_EQ(step_time(points, 0), 250_ms);
  EXPECT_EQ(step_time(points, 1), 500_ms);
}

TEST(RunMonitor, EndingsAreWords) {
  EXPECT_EQ(ending_text(0), "finished");
  EXPECT_EQ(ending_text(130), "stopped: the steps so far are kept (exit code 130)");
  EXPECT_EQ(ending_text(77), "ended with exit code 77");
}

TEST(RunMonitor, TrainIsToldTheMachineWhereThereIsOne) {
  EXPECT_THAT(train_arguments({.job = "a.json", .ranks = 2, .steps = 3, .folder = "out"}),
              ElementsAre("train", "a.json", "--ranks", "2", "--steps", "3", "-o", "out"));
  EXPECT_THAT(train_arguments({.job = "a", .folder = "b", .machine = "m.json"}).back(), "m.json");
}

}  // namespace
}  // namespace shardscope::gui
