#include "gui/window/mnemonics.h"

#include <QAction>
#include <QList>
#include <QMenu>
#include <QMenuBar>
#include <QSet>
#include <algorithm>

namespace shardscope::gui {
namespace {

/// Where a text's letter may be: beginnings of words first.
QList<qsizetype> candidates(const QString& text) {
  QList<qsizetype> begins, others;
  for (qsizetype i = 0; i < text.size(); ++i) {
    if (!text[i].isLetterOrNumber()) continue;
    const bool is_begin = i == 0 || !text[i - 1].isLetterOrNumber();
    (is_begin ? begins : others) += i;
  }
  return begins + others;
}

/// Up to the tab: what follows are the keys.
QString name_of(const QString& text) { return without_mnemonic(text).section(u'\t', 0, 0); }

void give(const QList<QAction*>& actions) {
  QStringList names;
  for (const QAction* action : actions) names += name_of(action->text());
  const QStringList marked = with_mnemonics(names);
  for (qsizetype i = 0; i < actions.size(); ++i) {
    if (actions[i]->isSeparator()) continue;
    const QString keys = actions[i]->text().section(u'\t', 1);
    actions[i]->setText(keys.isEmpty() ? marked[i] : marked[i] + u'\t' + keys);
  }
}

}  // namespace

QStringList with_mnemonics(const QStringList& texts) {
  QSet<QChar> taken;
  QStringList marked;
  for (const QString& text : texts) {
    const QList<qsizetype> places = candidates(text);
    const auto free = std::find_if(places.begin(), places.end(), [&](qsizetype place) {
      return !taken.contains(text[place].toLower());
    });
    const auto doubled = [](QString part) { return part.replace(u'&', QStringLiteral("&&")); };
    if (free == places.end()) {
      marked += doubled(text);
      continue;
    }
    taken += text[*free].toLower();
    marked += doubled(text.left(*free)) + u'&' + doubled(text.mid(*free));
  }
  return marked;
}

void give_mnemonics(QMenuBar& bar) {
  give(bar.actions());
  for (QAction* action : bar.actions())
    if (action->menu() != nullptr) give_mnemonics(*action->menu());
}

void give_mnemonics(QMenu& menu) { give(menu.actions()); }

QString without_mnemonic(const QString& text) {
  QString plain;
  for (qsizetype i = 0; i < text.size(); ++i) {
    if (text[i] == u'&' && i + 1 < text.size()) ++i;
    plain += text[i];
  }
  return plain;
}

}  // namespace shardscope::gui
