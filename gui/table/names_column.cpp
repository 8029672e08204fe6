#include "gui/table/names_column.h"

#include <QEvent>
#include <QHeaderView>
#include <QTableView>

#include <algorithm>

namespace shardscope::gui {
namespace {

class NamesColumn : public QObject {
 public:
  NamesColumn(QTableView& table, int least) : QObject(&table), table_(table), least_(least) {
    QHeaderView* header = table.horizontalHeader();
    header->setStretchLastSection(false);
    table.viewport()->installEventFilter(this);
    connect(header, &QHeaderView::sectionResized, this,
            [this](int column) { column == 0 ? keep() : widen(); });
    connect(header, &QHeaderView::sectionCountChanged, this, [this] { widen(); });
  }

  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() == QEvent::Resize) widen();
    return QObject::eventFilter(watched, event);
  }

 private:
  void widen() {
    QHeaderView* header = table_.horizontalHeader();
    if (is_widening_ || was_dragged_ || header->count() == 0) return;
    const int others = header->length() - header->sectionSize(0);
    is_widening_ = true;
    header->resizeSection(0, std::max(least_, table_.viewport()->width() - others));
    is_widening_ = false;
  }
  void keep() { was_dragged_ = was_dragged_ || !is_widening_; }

  QTableView& table_;
  int least_;
  bool is_widening_ = false, was_dragged_ = false;
};

}  // namespace

void widen_names(QTableView& table, int least) { new NamesColumn(table, least); }

}  // namespace shardscope::gui
