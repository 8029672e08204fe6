// The letters by which menus and their entries are chosen with Alt.
#pragma once

#include <QString>
#include <QStringList>

class QMenu;
class QMenuBar;

namespace shardscope::gui {

/// The texts with `&` before a letter that no other of them has: the first of a word where one is
/// free, else any; a text all of whose letters are taken has none. An `&` of the text is doubled.
QStringList with_mnemonics(const QStringList& texts);

/// Gives them to the menus of a bar and to all entries. A text that has one keeps it.
void give_mnemonics(QMenuBar& bar);
void give_mnemonics(QMenu& menu);

/// A menu's or an entry's text without them.
QString without_mnemonic(const QString& text);

}  // namespace shardscope::gui
