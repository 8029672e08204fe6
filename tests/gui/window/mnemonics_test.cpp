#include "gui/window/mnemonics.h"

#include <gtest/gtest.h>

#include <QMenu>
#include <QMenuBar>
#include <QSet>
#include <QTest>

#include "gui/window/main_window.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

TEST(Mnemonics, AreTheFirstFreeLetterOfAWord) {
  EXPECT_EQ(with_mnemonics({"View", "This view", "Save", "Search", "Sea"}),
            (QStringList{"&View", "&This view", "&Save", "S&earch", "Se&a"}));
  // "Voice log": V is taken, so the other word's letter; then none of "vl" is left.
  EXPECT_EQ(with_mnemonics({"View", "Voice log", "vl"}),
            (QStringList{"&View", "Voice &log", "vl"}));
}

TEST(Mnemonics, AnAmpersandOfTheTextIsDoubled) {
  EXPECT_EQ(with_mnemonics({"P & G"}), QStringList{"&P && G"});
  EXPECT_EQ(without_mnemonic(QStringLiteral("&P && G")), QStringLiteral("P & G"));
}

/// The letter behind the single `&`; none: there is none.
QChar letter_of(const QString& text) {
  for (qsizetype i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != u'&') continue;
    if (text[i + 1] != u'&') return text[i + 1].toLower();
    ++i;
  }
  return {};
}

void expect_letters_of_their_own(const QList<QAction*>& actions) {
  QSet<QChar> letters;
  for (const QAction* action : actions) {
    const QChar letter = letter_of(action->text().section(u'\t', 0, 0));
    EXPECT_FALSE(letter.isNull()) << action->text().toStdString();
    EXPECT_FALSE(letters.contains(letter)) << action->text().toStdString();
    letters += letter;
  }
}

TEST(Mnemonics, EveryMenuAndEntryOfTheWindowHasOneAmongItsNeighbours) {
  MainWindow window;
  expect_letters_of_their_own(window.menuBar()->actions());
  for (const QAction* action : window.menuBar()->actions()) {
    ASSERT_NE(action->menu(), nullptr);
    expect_letters_of_their_own(action->menu()->actions());
  }
}

TEST(Icons, StandInTheFileMenu) {
  MainWindow window;
  const QMenu* file = window.menuBar()->actions().front()->menu();
  QStringList without;
  for (const QAction* action : file->actions())
    if (action->icon().isNull()) without += without_mnemonic(action->text());
  EXPECT_FALSE(without.contains("Open file...")) << without.join(", ").toStdString();
  EXPECT_FALSE(without.contains("New comparison...")) << without.join(", ").toStdString();
}

}  // namespace
}  // namespace shardscope::gui
