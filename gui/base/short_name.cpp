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

/// " fwd" or " bwd" of what is behind the module; "" of other operators.
QString direction_of(const QString& name) {
  const QStringView operation = QStringView(name).mid(name.indexOf(QLatin1Char(' ')) + 1);
  if (operation.endsWith(QStringLiteral("_forward"))) return QStringLiteral(" fwd");
  if (operation.contains(QStringLiteral("_backward"))) return QStringLiteral(" bwd");
  return {};
}

}  // namespace

QString short_name(const QString& name, qsizetype most) {
  if (name.size() <= most) return name;
  // "all_gather:" and its like stay.
  const qsizetype colon = name.indexOf(QLatin1Char(':'));
  const qsizetype space = name.indexOf(QLatin1Char(' '));
  const qsizetype begin = colon >= 0 && (space < 0 || colon < space) ? colon + 1 : 0;
  QString shorter = name;
  qsizetype leaf = begin;
  for (qsizetype part = next_part(name, begin); part >= 0; part = next_part(name, part)) {
    leaf = part;
    shorter = name.left(begin) + name.mid(part);
    if (shorter.size() <= most) return shorter;
  }
  // Of a name without modules its first word alone says nothing.
  const bool has_modules = leaf > begin || (begin > 0 && name[begin] != QLatin1Char(':'));
  const QString module = name.mid(leaf, space < leaf ? -1 : space - leaf);
  for (const QString& least : {module + direction_of(name.mid(leaf)), module})
    if (has_modules && least.size() <= most) return least;
  return shorter.left(most - 1) + QChar(0x2026);
}

QString elided_name(const QString& name, const QString& common, const QFontMetrics& metrics,
                    int width) {
  if (metrics.horizontalAdvance(name) <= width) return name;
  const bool is_common = !common.isEmpty() && name.startsWith(common);
  const QString shown = is_common ? QChar(0x2026) + name.mid(common.size()) : name;
  return metrics.elidedText(shown, Qt::ElideMiddle, width);
}

}  // namespace shardscope::gui
