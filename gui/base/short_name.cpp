#include "gui/base/short_name.h"

namespace shardscope::gui {
namespace {

/// Where the name without one more outer module begins; -1: there is none.
qsizetype next_part(const QString& name, qsizetype from) {
  const qsizetype space = name.indexOf(QLatin1Char(' '), from);
  const qsizetype end = space < 0 ? name.size() : space;
  for (qsizetype dot = name.indexOf(QLatin1Char('.'), from); dot >= 0 && dot + 1 < end;
       dot = name.indexOf(QLatin1Char('.'), dot + 1))
    if (!name[dot + 1].isDigit()) return dot + 1;
  return -1;
}

}  // namespace

QString short_name(const QString& name, qsizetype most) {
  if (name.size() <= most) return name;
  // "all_gather:" and its like stay.
  const qsizetype colon = name.indexOf(QLatin1Char(':'));
  const qsizetype space = name.indexOf(QLatin1Char(' '));
  const qsizetype begin = colon >= 0 && (space < 0 || colon < space) ? colon + 1 : 0;
  QString shorter = name;
  for (qsizetype part = next_part(name, begin); part >= 0; part = next_part(name, part)) {
    shorter = name.left(begin) + name.mid(part);
    if (shorter.size() <= most) return shorter;
  }
  return shorter.left(most - 1) + QChar(0x2026);
}

}  // namespace shardscope::gui
