// What a screen reader is told, through the interface that AT-SPI is served from.
#include <gtest/gtest.h>

#include <QAccessible>
#include <QComboBox>
#include <QLabel>
#include <QSignalBlocker>
#include <QStackedWidget>
#include <QTableView>
#include <QTest>
#include <algorithm>

#include "gui/base/choice_box.h"
#include "gui/base/spoken.h"
#include "gui/timeline/timeline_canvas.h"
#include "gui/timeline/timeline_view.h"
#include "gui/window/main_window.h"
#include "tests/gui/patience.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

QString name_of(QWidget* widget) {
  QAccessibleInterface* told = QAccessible::queryAccessibleInterface(widget);
  return told == nullptr ? QString() : told->text(QAccessible::Name);
}

/// Texts of the labels that stand for the widget.
QStringList labels_of(QWidget* widget) {
  QStringList labels;
  QAccessibleInterface* told = QAccessible::queryAccessibleInterface(widget);
  for (const auto& [other, relation] : told->relations(QAccessible::Label))
    if (relation & QAccessible::Label) labels += other->text(QAccessible::Name);
  return labels;
}

class ScreenReader : public ::testing::Test {
 protected:
  ScreenReader() {
    window_.show();
    window_.workspace().add(shardscope::testing::small_scenario("one"));
    window_.workspace().add(shardscope::testing::small_scenario("two"));
    window_.workspace().set_b(window_.workspace().scenarios()[1]);
    EXPECT_TRUE(window_.workspace().tasks().wait_until_idle(patience_ms));
  }

  MainWindow window_;
};

TEST_F(ScreenReader, AComboBoxHasALabelBesideItsValue) {
  // On Unix Qt tells the value as the name of a combo box: what it is of is told by its label.
  const QList<QComboBox*> boxes = window_.findChildren<QComboBox*>();
  ASSERT_GT(boxes.size(), 8);
  for (QComboBox* box : boxes) {
    SCOPED_TRACE(box->objectName().toStdString() + ": " + box->currentText().toStdString());
    EXPECT_FALSE(labels_of(box).join(QString()).trimmed().isEmpty());
  }
}

TEST_F(ScreenReader, ATabIsAPanelWithThePageThatIsShown) {
  const QList<QStackedWidget*> stacks = window_.findChildren<QStackedWidget*>();
  ASSERT_GE(stacks.size(), 2);
  for (QStackedWidget* stack : stacks) {
    QAccessibleInterface* told = QAccessible::queryAccessibleInterface(stack);
    ASSERT_NE(told, nullptr);
    EXPECT_EQ(told->role(), QAccessible::Pane);
    ASSERT_EQ(told->childCount(), stack->currentWidget() == nullptr ? 0 : 1);
    if (told->childCount() == 0) continue;
    EXPECT_EQ(told->child(0)->object(), stack->currentWidget());
    EXPECT_EQ(told->indexOfChild(told->child(0)), 0);
  }
}

TEST(ChoiceBox, SaysItsValueWhenItGetsTheFocusAndWhenThatChanges) {
  ChoiceBox box;
  const QSignalBlocker blocked(box);
  box.addItems({"pre", "both", "none"});
  box.setCurrentIndex(1);
  box.show();
  box.activateWindow();
  ASSERT_TRUE(QTest::qWaitForWindowActive(&box));
  box.setFocus();
  EXPECT_EQ(box.accessibleDescription(), "both");
  box.blockSignals(false);
  QTest::keyClick(&box, Qt::Key_Down);
  EXPECT_EQ(box.accessibleDescription(), "none");
}

TEST(SpokenPicture, HasWhatItSaysAsItsFocusedItem) {
  QWidget picture;
  let_speak(picture);
  picture.setFocusPolicy(Qt::StrongFocus);
  picture.show();
  picture.activateWindow();
  ASSERT_TRUE(QTest::qWaitForWindowActive(&picture));
  picture.setFocus();
  QAccessibleInterface* told = QAccessible::queryAccessibleInterface(&picture);
  EXPECT_TRUE(picture.hasFocus());
  EXPECT_EQ(told->childCount(), 0);
  say(picture, QStringLiteral("first"));
  ASSERT_EQ(told->childCount(), 1);
  EXPECT_EQ(told->focusChild()->text(QAccessible::Name), "first");
  const QAccessible::Id before = QAccessible::uniqueId(told->child(0));
  say(picture, QStringLiteral("second"));
  EXPECT_EQ(told->focusChild()->text(QAccessible::Name), "second");
  EXPECT_EQ(told->childCount(), 1);
  EXPECT_NE(QAccessible::uniqueId(told->child(0)), before);
}

TEST_F(ScreenReader, TabLeavesATable) {
  for (const QTableView* table : window_.findChildren<QTableView*>())
    EXPECT_FALSE(table->tabKeyNavigation()) << table->accessibleName().toStdString();
}

TEST_F(ScreenReader, KeysAloneReachASpan) {
  window_.show_view(window_.view("timeline"));
  ASSERT_TRUE(window_.workspace().tasks().wait_until_idle(patience_ms));
  auto* canvas = window_.findChild<TimelineCanvas*>(QStringLiteral("timeline_canvas"));
  const auto said = [&](Qt::Key key, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    QTest::keyClick(canvas, key, modifiers);
    EXPECT_TRUE(window_.workspace().tasks().wait_until_idle(patience_ms));
    return canvas->accessibleDescription();
  };
  const QString first = said(Qt::Key_Period);
  EXPECT_FALSE(first.isEmpty());
  const QString below = said(Qt::Key_Down, Qt::AltModifier);
  EXPECT_NE(below, first);
  EXPECT_EQ(said(Qt::Key_Up, Qt::AltModifier), first);
}

TEST_F(ScreenReader, TheVerdictIsReadAsItsSentence) {
  auto* verdict = window_.findChild<QLabel*>(QStringLiteral("verdict"));
  ASSERT_NE(verdict, nullptr);
  ASSERT_FALSE(verdict->text().isEmpty());
  EXPECT_TRUE(name_of(verdict).contains(verdict->text())) << name_of(verdict).toStdString();
}

TEST_F(ScreenReader, ASelectedSpanIsReadWithItsTimesItsUnitAndWhyItIsExposed) {
  window_.show_view(window_.view("timeline"));
  window_.workspace().select(
      {.scenario = window_.workspace().a(), .side = SideKind::predicted, .operation = {2}});
  ASSERT_TRUE(window_.workspace().tasks().wait_until_idle(patience_ms));
  auto* canvas = window_.findChild<TimelineCanvas*>(QStringLiteral("timeline_canvas"));
  QAccessibleInterface* told = QAccessible::queryAccessibleInterface(canvas);
  const QString said = told->text(QAccessible::Description);
  for (const char* part :
       {"all_gather layers.1", "rank 0", "60.0 us", "unit layers.1", "40.0 us of 60.0 us exposed"})
    EXPECT_TRUE(said.contains(QLatin1String(part))) << part << ": " << said.toStdString();
}

}  // namespace
}  // namespace shardscope::gui
