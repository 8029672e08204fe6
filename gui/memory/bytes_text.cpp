#include "gui/memory/bytes_text.h"

#include <QLocale>

namespace shardscope::gui {

QString exact_bytes(Bytes bytes) {
  return QLocale(QLocale::English).toString(static_cast<qlonglong>(bytes.count)) +
         QStringLiteral(" B");
}

QString signed_bytes(Bytes bytes) {
  return (bytes.count > 0 ? QStringLiteral("+") : QString()) + exact_bytes(bytes);
}

QString rounded_bytes(Bytes bytes) { return QString::fromStdString(rounded_text(bytes)); }

QString signed_share(Bytes difference, Bytes of) {
  if (of.count == 0) return {};
  const double share = 100 * static_cast<double>(difference.count) / static_cast<double>(of.count);
  return QStringLiteral("%1%2%")
      .arg(share > 0 ? QStringLiteral("+") : QString())
      .arg(share, 0, 'f', 2);
}

}  // namespace shardscope::gui
