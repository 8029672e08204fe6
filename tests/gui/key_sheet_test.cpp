#include "gui/window/key_sheet.h"

#include <gtest/gtest.h>

#include <QLabel>
#include <QTest>
#include <map>
#include <set>

#include "gui/window/main_window.h"
#include "tests/gui/patience.h"

namespace shardscope::gui {
namespace {

QStringList texts_of(const QWidget& widget) {
  QStringList texts;
  for (const QLabel* label : widget.findChildren<QLabel*>()) texts += label->text();
  return texts;
}

TEST(KeySheet, HasEveryCommandThatHasAKey) {
  MainWindow window;
  const std::vector<Command> commands = window.commands();
  const KeySheet sheet(commands, &window);
  const QStringList texts = texts_of(sheet);
  for (const Command& command : commands) {
    if (command.keys.isEmpty()) continue;
    EXPECT_TRUE(texts.contains(command.text)) << command.text.toStdString();
    EXPECT_TRUE(texts.contains(QKeySequence::listToString(command.keys, QKeySequence::NativeText)))
        << command.text.toStdString();
  }
}

TEST(KeySheet, OpensByTheQuestionMark) {
  MainWindow window;
  window.show();
  ASSERT_TRUE(QTest::qWaitForWindowActive(&window, patience_ms));
  QTest::keyClick(&window, Qt::Key_Question);
  EXPECT_NE(window.findChild<KeySheet*>(), nullptr);
}

// A screen reader says what has the focus.
TEST(KeySheet, ArrowsGoThroughEveryLineAndBack) {
  MainWindow window;
  const std::vector<Command> commands = window.commands();
  KeySheet sheet(commands, &window);
  sheet.setAttribute(Qt::WA_DeleteOnClose, false);
  sheet.show();
  ASSERT_TRUE(QTest::qWaitForWindowActive(&sheet, patience_ms));
  const auto focused = [&] {
    return sheet.focusWidget() == nullptr ? QString() : sheet.focusWidget()->accessibleName();
  };
  const QString first = focused();
  QTest::keyClick(&sheet, Qt::Key_Down);
  EXPECT_NE(focused(), first);
  QTest::keyClick(&sheet, Qt::Key_Up);
  EXPECT_EQ(focused(), first);
  QStringList said;
  do {
    said += focused();
    QTest::keyClick(&sheet, Qt::Key_Down);
  } while (focused() != first && said.size() < 1000);
  for (const Command& command : commands) {
    if (command.keys.isEmpty()) continue;
    const QString keys = QKeySequence::listToString(command.keys, QKeySequence::NativeText);
    EXPECT_TRUE(said.contains(command.text + ", " + keys)) << command.text.toStdString();
  }
}

// Two with one key in a view, or in the window, would be ambiguous: neither would run.
TEST(Keys, EachKeyMeansOneThingInAView) {
  MainWindow window;
  std::map<QString, QString> of_window;
  const auto expect_new = [](std::map<QString, QString>& meanings, const Command& command) {
    for (const QKeySequence& key : command.keys) {
      const auto [old, is_new] = meanings.emplace(key.toString(), command.text);
      EXPECT_TRUE(is_new || old->second == command.text)
          << key.toString().toStdString() << ": " << old->second.toStdString() << ", "
          << command.text.toStdString();
    }
  };
  std::set<QString> view_texts;
  for (View* view : window.views())
    for (const Command& command : view->commands()) view_texts.insert(command.group + command.text);
  for (const Command& command : window.commands())
    if (!view_texts.contains(command.group + command.text)) expect_new(of_window, command);
  for (View* view : window.views()) {
    std::map<QString, QString> meanings = of_window;
    for (const Command& command : view->commands()) expect_new(meanings, command);
  }
}

}  // namespace
}  // namespace shardscope::gui
