// A large table as text while its thread goes on.
#pragma once

#include <QObject>
#include <QString>

#include "gui/export/table_file.h"

class QTimer;

namespace shardscope::gui {

/// Reads `table` between events, a few milliseconds at a time. Ends with `finished`, or with
/// `overtaken` where the table changed meanwhile; destroy it to stop.
class TableReader : public QObject {
  Q_OBJECT
 public:
  TableReader(const QAbstractItemModel& table, ExportFormat format, QObject* parent);

 Q_SIGNALS:
  void progressed(double share);  ///< 0 to 1
  void finished(const QString& text);
  void overtaken();

 private:
  void read_slice();
  void stop();

  TableText text_;
  QTimer* between_events_;
};

}  // namespace shardscope::gui
