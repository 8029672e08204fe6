// Timeline: the streams of every rank, predicted directly above profiled.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "gui/base/view.h"
#include "gui/timeline/range_figures.h"
#include "gui/timeline/span_details.h"
#include "gui/timeline/span_search.h"
#include "gui/timeline/timeline_data.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QScrollBar;
class QSplitter;
class QTabWidget;
class QTimer;

namespace shardscope::gui {

class SpansModel;
class TextRowsModel;
class TimelineCanvas;
class TimelineMinimap;

class TimelineView : public View {
  Q_OBJECT
 public:
  explicit TimelineView(Workspace& workspace, QWidget* parent = nullptr);

  QAbstractItemModel* table() override;
  std::vector<Command> commands() override;
  void draw_page(QPainter& painter, QSize size) override;

  TimelineCanvas& canvas() { return *canvas_; }
  /// The panel's tables.
  TextRowsModel& details() { return *details_; }
  TextRowsModel& identity() { return *identity_; }
  TextRowsModel& operations() { return *operations_; }
  TextRowsModel& exposed() { return *exposed_; }
  /// Why the selected collective is exposed, and what would hide it; "" of what is not.
  QString why() const;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QWidget* make_bar();
  QWidget* make_canvas();
  QWidget* make_panel();
  void connect_all();
  void prepare();
  void show_prepared(TimelineData prepared);
  void forget_figures();
  void show_details();
  void take_details(const SpanPlace& place, const std::vector<SpanDetail>& details,
                    const std::string& reason);
  void ask_for_remedy(const SpanPlace& place);
  void tell_why(const QString& sentence);
  void sum_range();
  void show_range(const RangeFigures& figures, const std::vector<ExposedStretch>& exposed);
  void search();
  void step_hit(int by);
  void show_hits(SearchHits found);
  void count_hits();
  void fit_scroll_bar();
  /// Gives the rows of the timeline the height first, until the user moves the handle.
  void divide();
  /// Or their tabs only.
  void show_tables(bool shown);
  /// Below this height, in pixels, tables show less than their header and two rows.
  int few_tables() const;
  /// Half of the height to the tables, where only their tabs are seen.
  void open_tables();

  TimelineCanvas* canvas_ = nullptr;
  TimelineMinimap* minimap_ = nullptr;
  QScrollBar* scroll_bar_ = nullptr;
  QLineEdit* search_box_ = nullptr;
  QLabel* hit_count_ = nullptr;
  QCheckBox* flows_;
  QComboBox* mode_ = nullptr;
  QSplitter* halves_ = nullptr;
  bool is_divided_by_hand_ = false;
  QTabWidget* panel_ = nullptr;
  QLabel* why_ = nullptr;
  QTimer* range_delay_ = nullptr;
  SpansModel* spans_ = nullptr;
  TextRowsModel* details_ = nullptr;
  TextRowsModel* identity_ = nullptr;
  TextRowsModel* operations_ = nullptr;
  TextRowsModel* exposed_ = nullptr;
  std::shared_ptr<const TimelineData> data_ = std::make_shared<const TimelineData>();
  std::vector<ExposedStretch> stretches_;
  std::shared_ptr<const SearchHits> hits_ = std::make_shared<const SearchHits>();
  std::optional<std::size_t> current_hit_;
  std::optional<TimeRange> summed_;  ///< the range whose sums are shown
  std::stop_source preparing_, summing_, searching_, explaining_;
};

}  // namespace shardscope::gui
