#include "gui/export/table_reader.h"

#include <QAbstractItemModel>
#include <QElapsedTimer>
#include <QTimer>

namespace shardscope::gui {
namespace {

constexpr int slice_ms = 4;

}  // namespace

TableReader::TableReader(const QAbstractItemModel& table, ExportFormat format, QObject* parent)
    : QObject(parent), text_(table, format), between_events_(new QTimer(this)) {
  using Model = QAbstractItemModel;
  connect(&table, &Model::modelAboutToBeReset, this, &TableReader::stop);
  connect(&table, &Model::layoutAboutToBeChanged, this, &TableReader::stop);
  connect(&table, &Model::rowsAboutToBeInserted, this, &TableReader::stop);
  connect(&table, &Model::rowsAboutToBeRemoved, this, &TableReader::stop);
  connect(&table, &QObject::destroyed, this, &TableReader::stop);
  connect(between_events_, &QTimer::timeout, this, &TableReader::read_slice);
  between_events_->start(0);
}

void TableReader::read_slice() {
  QElapsedTimer clock;
  clock.start();
  while (!text_.at_end() && clock.elapsed() < slice_ms) text_.add_row();
  if (!text_.at_end()) {
    Q_EMIT progressed(text_.share());
    return;
  }
  between_events_->stop();
  Q_EMIT finished(text_.text());
}

void TableReader::stop() {
  if (!between_events_->isActive()) return;
  between_events_->stop();
  Q_EMIT overtaken();
}

}  // namespace shardscope::gui
