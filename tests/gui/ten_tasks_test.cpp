// Ten tasks as a person does them, from a window that has what is asked about open, and how many
// keys and clicks each takes. docs/desktop.md has the counts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <QComboBox>
#include <QDialogButtonBox>
#include <QFileDialog>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTabWidget>
#include <QTest>
#include <QTimer>
#include <QTreeView>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stop_token>
#include <string>
#include <thread>

#include "gui/base/tasks.h"
#include "gui/memory/figures_panel.h"
#include "gui/memory/live_panel.h"
#include "gui/memory/live_tree_model.h"
#include "gui/snapshots/snapshots_view.h"
#include "gui/strategies/strategies_view.h"
#include "gui/strategies/verdict_panel.h"
#include "gui/table/column_table_model.h"
#include "gui/table/table_pane.h"
#include "gui/timeline/timeline_canvas.h"
#include "gui/timeline/timeline_view.h"
#include "gui/what_if/run_dialog.h"
#include "gui/what_if/run_pane.h"
#include "gui/what_if/what_if_controls.h"
#include "gui/what_if/what_if_view.h"
#include "gui/window/main_window.h"
#include "gui/window/new_comparison_dialog.h"
#include "tests/gui/patience.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

const std::string root = SOURCE_ROOT;

/// How long the UI thread leaves an event unanswered at most: what a person feels as a block. And
/// how much processor time the thread itself takes between two events at most: what is left of that
/// where nothing else runs on the machine.
class UiWatch {
 public:
  struct Block {
    std::chrono::milliseconds waited{}, computed{};
  };

  UiWatch() : thread_([this](const std::stop_token& stop) { ask(stop); }) {}
  UiWatch(const UiWatch&) = delete;
  UiWatch& operator=(const UiWatch&) = delete;
  ~UiWatch() {
    thread_.request_stop();
    thread_.join();
  }
  Block longest() const {
    using std::chrono::duration_cast, std::chrono::milliseconds;
    return {.waited = duration_cast<milliseconds>(waited_),
            .computed = duration_cast<milliseconds>(computed_)};
  }
  void begin_anew() {
    waited_ = computed_ = {};
    computed_until_ = processor_time();
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Of the thread that asks.
  static Clock::duration processor_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  void ask(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const Clock::time_point asked = Clock::now();
      on_ui_thread_.post([this, asked] { answer(asked); });
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  void answer(Clock::time_point asked) {
    const Clock::duration now = processor_time();
    waited_ = std::max(waited_, Clock::now() - asked);
    computed_ = std::max(computed_, now - computed_until_);
    computed_until_ = now;
  }

  // Of the UI thread alone.
  Clock::duration waited_{}, computed_{};
  Clock::duration computed_until_ = processor_time();
  Tasks on_ui_thread_;
  std::jthread thread_;
};

class TenTasks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(SHARDSCOPE_PROGRAM)) GTEST_SKIP() << "the program shardscope is not built";
    qputenv("SHARDSCOPE", SHARDSCOPE_PROGRAM);
    QStandardPaths::setTestModeEnabled(true);
    folder_ = fs::temp_directory_path() / ("ten_tasks." + std::to_string(getpid()));
    fs::create_directories(folder_);
    window_.resize(1366, 768);
    window_.show();
    ASSERT_TRUE(QTest::qWaitForWindowActive(&window_, patience_ms));
  }
  void TearDown() override {
    QStandardPaths::setTestModeEnabled(false);
    fs::remove_all(folder_);
    // Read by people: what else the machine does is in it.
    const UiWatch::Block longest = watch_.longest();
    RecordProperty("actions", actions_);
    RecordProperty("longest_ui_block_ms", static_cast<int>(longest.waited.count()));
    RecordProperty("longest_ui_computing_ms", static_cast<int>(longest.computed.count()));
    std::printf("%d actions, an event waited for %d ms at most, the UI thread computed for %d ms\n",
                actions_, static_cast<int>(longest.waited.count()),
                static_cast<int>(longest.computed.count()));
  }

  void settle() { ASSERT_TRUE(window_.workspace().tasks().wait_until_idle(patience_ms)); }
  void run(const std::string& words) {
    const std::string command =
        std::string("'") + SHARDSCOPE_PROGRAM + "' " + words + " > /dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << words;
    QApplication::processEvents();
    watch_.begin_anew();
  }
  fs::path simulated(const std::string& strategy) {
    const fs::path to = folder_ / strategy;
    run("simulate --model '" + root + "/examples/demo/model' --world 2 --strategy " + strategy +
        " --batch 4 --seq 128 --cluster '" + root +
        "/tests/gui/two_ranks.json' --quiet --json -o '" + to.string() + "'");
    return to;
  }
  /// What was there before the task.
  void has_open(const fs::path& path) {
    open(path);
    watch_.begin_anew();
  }
  void open(const fs::path& path) {
    window_.open(path);
    settle();
    QApplication::processEvents();
  }
  void has_open(const ScenarioPointer& scenario) {
    window_.workspace().add(scenario);
    settle();
  }

  template <class Of>
  Of& view(const char* id) {
    return *dynamic_cast<Of*>(window_.view(QLatin1String(id)));
  }
  QString verdict() { return view<StrategiesView>("strategies").verdict().sentence(); }

  // What a person does, each of them counted.
  void drop(const fs::path& path) {
    ++actions_;
    open(path);
  }
  void press(int key, Qt::KeyboardModifiers modifiers = {}) {
    ++actions_;
    QWidget* to = modifiers || QApplication::focusWidget() == nullptr ? &window_
                                                                      : QApplication::focusWidget();
    QTest::keyClick(to, static_cast<Qt::Key>(key), modifiers);
    settle();
  }
  void click(QWidget* widget, QPoint at, Qt::KeyboardModifiers modifiers = {}) {
    ++actions_;
    QTest::mouseClick(widget, Qt::LeftButton, modifiers, at);
    settle();
  }
  void click_row(int place, Qt::KeyboardModifiers modifiers = {}) {
    TablePane& pane = view<StrategiesView>("strategies").pane();
    click(pane.viewport(), pane.visualRect(pane.model()->index(place, 0)).center(), modifiers);
  }
  /// The longest exposed communication that is in sight.
  void click_longest_exposed() {
    TimelineCanvas& canvas = view<TimelineView>("timeline").canvas();
    const auto stretches = longest_exposed(canvas.data(), window_.workspace().visible());
    ASSERT_FALSE(stretches.empty());
    click(&canvas, canvas.rectangle_of(stretches.front().place).center().toPoint());
  }
  QPushButton* button(const char* view_id, const char* text) {
    for (QPushButton* one : window_.view(QLatin1String(view_id))->findChildren<QPushButton*>())
      if (one->text().startsWith(QLatin1String(text))) return one;
    return nullptr;
  }
  /// In the next dialog, which stops everything else until it is answered.
  template <class Dialog, class Answer>
  void answer_next(Answer answer) {
    auto* timer = new QTimer(&window_);
    QObject::connect(timer, &QTimer::timeout, &window_, [timer, answer] {
      auto* dialog = qobject_cast<Dialog*>(QApplication::activeModalWidget());
      if (dialog == nullptr) return;
      timer->stop();
      timer->deleteLater();
      answer(*dialog);
    });
    timer->start(20);
  }

  fs::path folder_;
  MainWindow window_;
  UiWatch watch_;
  int actions_ = 0;
};

TEST_F(TenTasks, TheBestStrategyAndWhyTakeNone) {
  // A is the first; it is laid beside what is not sharded at once.
  for (const char* strategy : {"full_shard", "no_shard", "zero1"}) has_open(simulated(strategy));
  EXPECT_TRUE(verdict().startsWith(QStringLiteral("FULL_SHARD "))) << verdict().toStdString();
  EXPECT_TRUE(verdict().contains(QStringLiteral(" because "))) << verdict().toStdString();
  EXPECT_EQ(actions_, 0);
}

TEST_F(TenTasks, WhatIsAliveAtThePeakTakesTwo) {
  has_open(simulated("full_shard"));
  press(Qt::Key_2, Qt::ControlModifier);
  press(Qt::Key_P);
  auto* live = window_.view(QStringLiteral("memory"))->findChild<LivePanel*>();
  ASSERT_NE(live, nullptr);
  EXPECT_GT(live->model()->rowCount(), 0);
  EXPECT_TRUE(live->isVisible());
  EXPECT_EQ(actions_, 2);
}

TEST_F(TenTasks, WhatIsExposedAndWhyTakesTwo) {
  has_open(simulated("full_shard"));
  press(Qt::Key_3, Qt::ControlModifier);
  click_longest_exposed();
  const QString why = view<TimelineView>("timeline").why();
  EXPECT_TRUE(why.contains(QStringLiteral(" exposed: "))) << why.toStdString();
  EXPECT_EQ(actions_, 2);
}

TEST_F(TenTasks, APlanToItsTimelineTakesThree) {
  run("plan --model '" + root +
      "/examples/models/gpt2' --cluster h100_sxm --world 8 --tokens-per-batch 8192 --seq 1024 "
      "--runtime fsdp2 -o '" +
      (folder_ / "plan").string() + "'");
  drop(folder_ / "plan");
  ASSERT_GT(window_.workspace().scenarios().size(), 1u);
  click_row(1);
  press(Qt::Key_3, Qt::ControlModifier);
  EXPECT_FALSE(view<TimelineView>("timeline").canvas().data().sources.empty());
  EXPECT_EQ(actions_, 3);
}

TEST_F(TenTasks, AnAccelerateFileToAVerdictTakesThree) {
  drop(root + "/examples/configs/fsdp_v1.yaml");
  auto* asks = window_.findChild<NewComparisonDialog*>();
  ASSERT_NE(asks, nullptr);
  ++actions_;  // typed, or chosen
  asks->findChild<QLineEdit*>(QStringLiteral("model"))
      ->setText(QString::fromStdString(root + "/examples/models/qwen2_5_0_5b"));
  ++actions_;
  asks->findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Ok)->click();
  settle();
  EXPECT_TRUE(verdict().contains(QStringLiteral("fsdp1 full_shard x8"))) << verdict().toStdString();
  EXPECT_EQ(actions_, 3);
}

TEST_F(TenTasks, TwoSnapshotsComparedTakeFour) {
  // One drop of two files.
  drop(root + "/tests/data/snapshots/protocol-5.pickle.gz");
  has_open(fs::path(root + "/tests/data/snapshots/enabled-state.pickle.gz"));
  ASSERT_EQ(window_.workspace().scenarios().size(), 2u);
  click_row(1, Qt::ControlModifier);
  ASSERT_NE(window_.workspace().b(), nullptr);
  press(Qt::Key_7, Qt::ControlModifier);
  auto* tabs = window_.view(QStringLiteral("snapshots"))->findChild<QTabWidget*>();
  ++actions_;
  tabs->setCurrentIndex(tabs->count() - 1);
  settle();
  EXPECT_EQ(tabs->tabText(tabs->currentIndex()), QStringLiteral("Two snapshots"));
  EXPECT_GT(view<SnapshotsView>("snapshots").growth().rowCount(), 0);
  EXPECT_EQ(actions_, 4);
}

TEST_F(TenTasks, ALateRankIsFoundWithTwo) {
  has_open(shardscope::testing::late_rank_scenario("one", 30));
  press(Qt::Key_3, Qt::ControlModifier);
  TimelineCanvas& canvas = view<TimelineView>("timeline").canvas();
  std::size_t profiled = 0;
  while (canvas.data().sources[profiled]->side != SideKind::profiled) ++profiled;
  const auto place = place_of(canvas.data(), profiled, LaneItems::spans, 1);
  click(&canvas, canvas.rectangle_of(*place).center().toPoint());
  EXPECT_TRUE(
      view<TimelineView>("timeline").why().contains(QStringLiteral("rank 1 came 30.0 us late")));
  EXPECT_EQ(actions_, 2);
}

TEST_F(TenTasks, AWhatIfToAnAccelerateFileTakesFive) {
  run("simulate --model '" + root +
      "/examples/models/gpt2' --runtime fsdp2 --strategy full_shard --world 8 --batch 1 --seq 128 "
      "--cluster h100_sxm --quiet --json -o '" +
      (folder_ / "fsdp2").string() + "'");
  has_open(folder_ / "fsdp2");
  press(Qt::Key_5, Qt::ControlModifier);
  auto& what_if = view<WhatIfView>("what_if");
  auto* checkpointing = what_if.controls().findChild<QComboBox*>(QStringLiteral("checkpointing"));
  ++actions_;  // a click opens the choices, the next takes one
  checkpointing->setFocus();
  press(Qt::Key_Down);
  ASSERT_NE(window_.workspace().ghost(), nullptr);
  const QString file = QString::fromStdString((folder_ / "accelerate.yaml").string());
  answer_next<QFileDialog>([this, file](QFileDialog& dialog) {
    ++actions_;
    dialog.selectFile(file);
    dialog.findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Save)->click();
  });
  QPushButton* write = button("what_if", "Write");
  ASSERT_NE(write, nullptr);
  click(write, write->rect().center());
  EXPECT_TRUE(fs::exists(folder_ / "accelerate.yaml"));
  EXPECT_EQ(actions_, 5);
}

TEST_F(TenTasks, ARealRunStartedAndComparedTakesFive) {
  std::ofstream(folder_ / "text.txt") << std::string(100'000, 'a');
  std::ofstream(folder_ / "job.json")
      << R"({"model": ")" << root << R"(/examples/demo/model", "data": "text.txt", "steps": 2,
             "batch": 1, "seq": 16, "ranks": 2, "save_model": false, "profile_steps": 1})";
  run("simulate --job '" + (folder_ / "job.json").string() + "' --cluster '" + root +
      "/tests/gui/two_ranks.json' --quiet --json -o '" + (folder_ / "run").string() + "'");
  has_open(folder_ / "run");
  press(Qt::Key_5, Qt::ControlModifier);
  auto& what_if = view<WhatIfView>("what_if");
  QSignalSpy ended(&what_if.run_pane(), &RunPane::ended);
  answer_next<RunDialog>([this](RunDialog& dialog) {
    ++actions_;
    dialog.findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Ok)->click();
  });
  QPushButton* start = button("what_if", "Start real run");
  ASSERT_NE(start, nullptr);
  click(start, start->rect().center());
  ASSERT_TRUE(!ended.isEmpty() || ended.wait(patience_ms));
  settle();
  ASSERT_EQ(window_.workspace().scenarios().size(), 2u) << what_if.run_pane().log().toStdString();
  press(Qt::Key_1, Qt::ControlModifier);
  int place = 0;
  StrategiesView& strategies = view<StrategiesView>("strategies");
  while (strategies.pane().model()->index(place, 0).data().toString() !=
         QStringLiteral("full_shard x2, real run"))
    ASSERT_LT(++place, 2);
  click_row(place, Qt::ControlModifier);
  EXPECT_EQ(window_.workspace().b()->label, "full_shard x2, real run");
  EXPECT_FALSE(verdict().isEmpty());
  EXPECT_EQ(actions_, 5);
}

TEST_F(TenTasks, APictureForAPaperTakesTwo) {
  has_open(simulated("full_shard"));
  const QString file = QString::fromStdString((folder_ / "paper.pdf").string());
  answer_next<QFileDialog>([this, file](QFileDialog& dialog) {
    ++actions_;
    dialog.findChild<QLineEdit*>()->setText(file);  // typed
    dialog.findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Save)->click();
  });
  press(Qt::Key_E, Qt::ControlModifier);
  settle();
  std::ifstream written(folder_ / "paper.pdf", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}).substr(0, 5), "%PDF-");
  EXPECT_EQ(actions_, 2);
}

}  // namespace
}  // namespace shardscope::gui
