#include "gui/what_if/what_if_view.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <QAbstractItemModelTester>
#include <QComboBox>
#include <QFile>
#include <QLabel>
#include <QSignalSpy>
#include <QSlider>
#include <QSpinBox>
#include <QTest>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/format/atomic_file.h"
#include "core/native/job.h"
#include "gui/data/open_run.h"
#include "gui/what_if/factor_slider.h"
#include "gui/what_if/run_chart.h"
#include "gui/what_if/run_pane.h"
#include "gui/what_if/what_if_controls.h"
#include "tests/gui/patience.h"

namespace shardscope::gui {
namespace {

/// A run folder that `simulate` left, of a model small enough to be trained in a test.
class WhatIfViewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(SHARDSCOPE_PROGRAM))
      GTEST_SKIP() << "the program shardscope is not built";
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("what_if_view_") + test->name() + "." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    write_atomically(folder_ / "text.txt", std::string(100'000, 'a'));
    write_atomically(folder_ / "job.json",
                     R"({"model": ")" SOURCE_ROOT
                     R"(/examples/demo/model", "data": "text.txt", "steps": 2, "batch": 1,
                        "seq": 16, "ranks": 2, "save_model": false, "profile_steps": 1})");
    const std::string command = std::string("'") + SHARDSCOPE_PROGRAM + "' simulate --job '" +
                                (folder_ / "job.json").string() +
                                "' --cluster '" SOURCE_ROOT
                                "/tests/gui/two_ranks.json' --quiet --json -o '" +
                                (folder_ / "run").string() + "' > /dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
    qputenv("SHARDSCOPE", SHARDSCOPE_PROGRAM);
    workspace_.add(open_run(folder_ / "run"));
    settle();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void settle() { ASSERT_TRUE(workspace_.tasks().wait_until_idle(patience_ms)); }
  template <class Widget>
  Widget* control(const char* name) {
    return view_.controls().findChild<Widget*>(QLatin1String(name));
  }
  /// The job of the run, started in a folder of its own.
  RunOffer real_run(std::int64_t steps) const {
    return {.job_text = to_json(read_job(folder_ / "run/job.json")),
            .ranks = 2,
            .steps = steps,
            .machine = folder_ / "run/hardware.json",
            .folder = folder_ / "real"};
  }
  /// As by hand.
  void choose(const char* name, const QString& text) {
    auto* box = control<QComboBox>(name);
    box->setCurrentText(text);
    Q_EMIT box->activated(box->currentIndex());
    settle();
  }

  std::filesystem::path folder_;
  Workspace workspace_;
  WhatIfView view_{workspace_};
};

TEST(WhatIfControlsTest, RanksAreThoseOfAnAxisTensorToo) {
  WhatIfControls controls;
  controls.set_settings({.choice = {.runtime = Runtime::fsdp2,
                                    .sharding = ShardingStrategy::full_shard,
                                    .mesh = {.shard = 2},
                                    .tensor = 4}});
  auto* ranks = controls.findChild<QSpinBox*>(QStringLiteral("ranks"));
  EXPECT_EQ(ranks->value(), 8);
  ranks->stepUp();
  EXPECT_EQ(world_of(controls.settings().choice), 12);
  EXPECT_EQ(controls.settings().choice.tensor, 4);
  EXPECT_FALSE(controls.findChild<QSpinBox*>(QStringLiteral("blocks"))->isEnabled());
}

TEST_F(WhatIfViewTest, StartsAsTheRunIsWithoutAGhost) {
  ASSERT_NE(view_.answer(), nullptr);
  EXPECT_EQ(view_.answer()->scenario->predicted->summary->step_time,
            workspace_.a()->predicted->summary->step_time);
  EXPECT_EQ(workspace_.ghost(), nullptr);
  EXPECT_TRUE(view_.refusal().isEmpty()) << view_.refusal().toStdString();
  EXPECT_TRUE(view_.command_text().startsWith(QStringLiteral("shardscope simulate --job ")));
}

TEST_F(WhatIfViewTest, AGhostAppearsAfterAControlMoves) {
  const QAbstractItemModelTester tester(view_.table(),
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  auto* slider = control<FactorSlider>("memory_bandwidth");
  QTest::keyClick(&slider->slider(), Qt::Key_PageUp);
  settle();
  ASSERT_NE(workspace_.ghost(), nullptr);
  EXPECT_LT(workspace_.ghost()->predicted->summary->step_time,
            workspace_.a()->predicted->summary->step_time);
  EXPECT_FALSE(workspace_.ghost()->predicted->buffers.empty());
  EXPECT_GT(view_.table()->rowCount(), 0);
  view_.reset();
  settle();
  EXPECT_EQ(workspace_.ghost(), nullptr);
}

TEST_F(WhatIfViewTest, OfManyMovesTheNewestIsShown) {
  auto* batch = control<QSpinBox>("batch");
  for (int size = 2; size <= 9; ++size) batch->setValue(size);
  settle();
  ASSERT_NE(view_.answer(), nullptr);
  EXPECT_EQ(view_.answer()->settings.choice.batch, 9);
}

TEST_F(WhatIfViewTest, WhatIsRefusedIsOneLineAndTheControlStays) {
  control<QSpinBox>("batch")->setValue(2);
  settle();
  ASSERT_NE(workspace_.ghost(), nullptr);
  choose("runtime", QStringLiteral("fsdp2"));
  EXPECT_FALSE(view_.refusal().isEmpty());
  EXPECT_FALSE(view_.refusal().contains(QLatin1Char('\n')));
  EXPECT_EQ(workspace_.ghost(), nullptr);
  EXPECT_EQ(control<QComboBox>("runtime")->currentText(), QStringLiteral("fsdp2"));
  choose("cluster", QStringLiteral("h100_sxm"));
  EXPECT_TRUE(view_.refusal().isEmpty()) << view_.refusal().toStdString();
  EXPECT_NE(workspace_.ghost(), nullptr);
}

TEST_F(WhatIfViewTest, APinnedPredictionIsAScenario) {
  choose("strategy", QStringLiteral("zero1"));
  view_.pin();
  ASSERT_EQ(workspace_.scenarios().size(), 2U);
  const ScenarioPointer pinned = workspace_.scenarios().back();
  EXPECT_EQ(pinned->label.substr(0, 15), "native zero1 x2");
  EXPECT_EQ(pinned->predicted->summary->strategy, "zero1");
  workspace_.set_a(pinned);  // the inputs stay those of the run
  settle();
  EXPECT_EQ(view_.answer()->settings.choice.sharding, ShardingStrategy::zero1);
}

TEST_F(WhatIfViewTest, WritesTheFileThatTheRuntimeIsStartedWith) {
  choose("runtime", QStringLiteral("fsdp2"));
  choose("cluster", QStringLiteral("h100_sxm"));
  const std::filesystem::path file = folder_ / "accelerate.yaml";
  view_.write(QString::fromStdString(file.string()));
  settle();
  EXPECT_NE(read_whole(file).find("fsdp_version: 2"), std::string::npos);
}

TEST_F(WhatIfViewTest, ADiskThatIsFullIsOneLine) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  view_.write(QStringLiteral("/dev/full"));
  settle();
  EXPECT_TRUE(view_.refusal().contains(QStringLiteral("/dev/full")))
      << view_.refusal().toStdString();
}

TEST_F(WhatIfViewTest, WithoutARunItSaysWhatToOpen) {
  Workspace empty;
  const WhatIfView view(empty);
  EXPECT_FALSE(view.refusal().isEmpty());
  EXPECT_EQ(view.answer(), nullptr);
}

TEST_F(WhatIfViewTest, ARealRunCompletesAndIsOpened) {
  RunPane& pane = view_.run_pane();
  QSignalSpy ended(&pane, &RunPane::ended);
  pane.start(real_run(2));
  EXPECT_FALSE(view_.why_not_close().isEmpty());
  ASSERT_TRUE(ended.wait(patience_ms)) << pane.log().toStdString();
  ASSERT_EQ(workspace_.scenarios().size(), 2U)
      << pane.status().toStdString() << pane.log().toStdString();
  const ScenarioPointer real = workspace_.scenarios().back();
  EXPECT_TRUE(real->profiled && real->profiled->has_trace());
  EXPECT_TRUE(real->predicted);
  EXPECT_EQ(pane.process().points().size(), 2U);
  EXPECT_TRUE(pane.status().contains(QStringLiteral("finished")));
  EXPECT_TRUE(view_.why_not_close().isEmpty());
}

TEST_F(WhatIfViewTest, ARealRunLeavesTheNameOfAAndTheSettingsThatWereChanged) {
  const std::string name = workspace_.a()->label;
  choose("strategy", QStringLiteral("no_shard"));
  RunPane& pane = view_.run_pane();
  QSignalSpy ended(&pane, &RunPane::ended);
  pane.start(real_run(2));
  ASSERT_TRUE(ended.wait(patience_ms)) << pane.log().toStdString();
  settle();
  ASSERT_EQ(workspace_.scenarios().size(), 2U) << pane.log().toStdString();
  EXPECT_EQ(workspace_.a()->label, name);
  EXPECT_EQ(workspace_.scenarios().back()->label, "full_shard x2, real run");
  EXPECT_EQ(view_.controls().settings().choice.sharding, ShardingStrategy::no_shard);
  EXPECT_NE(workspace_.ghost(), nullptr);
}

TEST_F(WhatIfViewTest, AnotherLabelOfTheSameRunKeepsTheSettingsThatWereChanged) {
  choose("strategy", QStringLiteral("no_shard"));
  auto twin = std::make_shared<Scenario>(*workspace_.a());
  twin->path = folder_ / "other/run_2";
  workspace_.add(twin);  // both are called "full_shard x2": they get the folder's name, too
  settle();
  EXPECT_NE(workspace_.a()->label, "full_shard x2");
  EXPECT_EQ(view_.controls().settings().choice.sharding, ShardingStrategy::no_shard);
}

TEST_F(WhatIfViewTest, SettingsAreNamedInWords) {
  for (const QLabel* label : view_.controls().findChildren<QLabel*>())
    EXPECT_FALSE(label->text().contains(u'_')) << label->text().toStdString();
}

TEST(RunChart, ShowsWhatWasPredictedOfAStepBesideWhatItTakes) {
  RunChart chart;
  chart.resize(600, 100);
  const std::vector<RunPoint> points{{.step = 1, .loss = 4, .elapsed_s = 0.25},
                                     {.step = 2, .loss = 3, .elapsed_s = 0.5}};
  chart.show(points, {});
  const QImage without = chart.grab().toImage();
  chart.show(points, 80_ms);
  EXPECT_NE(chart.grab().toImage(), without) << "the predicted line";
  // From 0.25 s to 0.5 s.
  EXPECT_EQ(chart.accessibleDescription(),
            QStringLiteral("step 2, loss 3.0000, step time 250 ms, 80.0 ms a step were predicted"));
}

TEST_F(WhatIfViewTest, AStoppedRunKeepsItsSteps) {
  RunPane& pane = view_.run_pane();
  QSignalSpy ended(&pane, &RunPane::ended), progressed(&pane.process(), &RunProcess::progressed);
  pane.start(real_run(1'000'000));
  ASSERT_TRUE(progressed.wait(patience_ms)) << pane.log().toStdString();
  pane.stop();
  ASSERT_TRUE(!ended.isEmpty() || ended.wait(patience_ms)) << pane.log().toStdString();
  EXPECT_TRUE(pane.status().contains(QStringLiteral("130")))
      << pane.status().toStdString() << pane.log().toStdString();
  EXPECT_EQ(workspace_.scenarios().size(), 2U);
}

TEST_F(WhatIfViewTest, ARunThatIsRefusedSaysWhy) {
  RunPane& pane = view_.run_pane();
  QSignalSpy ended(&pane, &RunPane::ended);
  pane.start({.job_text = "{\"model\": 1}",
              .ranks = 1,
              .steps = 1,
              .machine = {},
              .folder = folder_ / "real"});
  ASSERT_TRUE(!ended.isEmpty() || ended.wait(patience_ms));
  EXPECT_TRUE(pane.status().contains(QStringLiteral("exit code 2"))) << pane.status().toStdString();
  EXPECT_TRUE(pane.log().contains(QStringLiteral("model"))) << pane.log().toStdString();
}

}  // namespace
}  // namespace shardscope::gui
