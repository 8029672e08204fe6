// Memory: what is held over time by category, predicted over profiled, and what is alive when.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>

#include "gui/base/view.h"
#include "gui/data/memory_picture.h"

class QComboBox;
class QHBoxLayout;
class QSplitter;
class QTabWidget;

namespace shardscope::gui {

class BandLegend;
class FiguresPanel;
class LivePanel;
class MemoryCanvas;
class MemoryLevelsModel;

class MemoryView : public View {
  Q_OBJECT
 public:
  explicit MemoryView(Workspace& workspace, QWidget* parent = nullptr);

  QAbstractItemModel* table() override;
  std::vector<Command> commands() override;

  MemoryCanvas* canvas() const { return canvas_; }
  BandLegend* legend() const { return legend_; }
  LivePanel* live() const { return live_; }
  FiguresPanel* peak() const { return peak_; }
  FiguresPanel* change() const { return change_; }
  FiguresPanel* units() const { return units_; }

 private:
  /// A level of a curve, for its live set.
  struct Instant {
    ScenarioPointer scenario;
    MemorySource source;
    MemoryLevel level;
  };

  void make_bar(QHBoxLayout* bar);
  void make_panels(QSplitter* splitter);
  void prepare();
  void show_picture(const std::shared_ptr<const MemoryPicture>& picture);
  void fill_sources();
  void show_live();
  void follow_cursors();
  void show_change();
  void show_units();
  void share_instant();
  void follow_selection();
  void select_band(int row);
  /// Of the table of categories at the peak.
  std::optional<std::size_t> band_of_row(int row) const;
  void mark_selected_band();
  std::optional<Instant> instant_at(SideKind side, std::optional<std::size_t> level) const;
  std::optional<Instant> peak_of(const std::shared_ptr<const ScenarioCurves>& curves) const;

  MemoryCanvas* canvas_;
  BandLegend* legend_;
  QComboBox* source_;
  QComboBox* mode_;
  QComboBox* other_;
  QTabWidget* panels_;
  LivePanel* live_;
  FiguresPanel* peak_;
  FiguresPanel* change_;
  FiguresPanel* units_;
  MemoryLevelsModel* model_;
  std::optional<std::size_t> selected_;
  std::optional<MemoryPictureRequest> prepared_;  ///< what was asked for last
  std::stop_source preparing_, listing_, changing_, comparing_;
  bool is_sharing_ = false;
  std::optional<double> a_, b_;  ///< cursors that the change is shown between
};

}  // namespace shardscope::gui
