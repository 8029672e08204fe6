// The memory view's picture over time: A's bands, B below or as an outline, their differences.
#pragma once

#include <QPixmap>
#include <memory>
#include <optional>
#include <vector>

#include "gui/base/time_canvas.h"
#include "gui/data/memory_picture.h"
#include "gui/memory/memory_painter.h"

namespace shardscope::gui {

/// Beyond the keys of all canvases: a click, or Enter at the mouse, chooses an instant; `,` and `.`
/// go to the level before and after, P to the next peak; Alt+click, or 1 and 2, set the cursors A
/// and B.
class MemoryCanvas : public TimeCanvas {
  Q_OBJECT
 public:
  MemoryCanvas(Workspace& workspace, QWidget* parent);

  void set_picture(std::shared_ptr<const MemoryPicture> picture);
  const MemoryPicture& picture() const { return *picture_; }
  const std::shared_ptr<const MemoryPicture>& shared_picture() const { return picture_; }
  const MemoryLook& look() const { return look_; }
  void set_look(const MemoryLook& look);

  /// On the axis; none: nothing was clicked yet.
  std::optional<double> instant() const { return instant_; }
  /// The level that the pixel column at `time` shows of a curve: its highest, so that what is told
  /// is what is drawn.
  std::optional<std::size_t> level_at(const MemorySideCurve& curve, double time) const;
  /// Of `side()` at the instant: a level that was gone to, else that of the pixel column.
  std::optional<std::size_t> chosen_level() const;
  void choose(std::optional<double> instant);
  /// The same without telling: the instant was chosen elsewhere.
  void follow(SideKind side, double instant);
  /// Of A: the profiled side where it was measured, unless the other one is asked for.
  SideKind side() const;
  void set_side(SideKind side);

  std::vector<Command> commands() override;
  void draw(QPainter& painter, QSize size) override;
  /// What the read-out at the cursor says, a row a line: for tests and screen readers.
  QStringList read_out(double time) const;

 Q_SIGNALS:
  void instant_chosen();
  void look_changed();

 protected:
  void click(QPointF at, Qt::KeyboardModifiers modifiers) override;

 private:
  struct Layout {
    QRectF strip, plot, other, difference;
  };
  /// What the layer below the cursors depends on.
  struct LayerKey {
    QSize size;
    double pixels = 0;
    TimeRange range;
    const MemoryPicture* picture = nullptr;
    MemoryLook look;
    Appearance appearance = Appearance::light;
    bool operator==(const LayerKey&) const = default;
  };

  Layout layout_for(QSize size) const;
  /// `above`: pixels at the top that are left free for a label.
  MemoryPlot plot_in(QRectF area, QSize size, double pixels, Bytes highest, double above = 0) const;
  void draw_layer(QPainter& painter, QSize size, double pixels);
  void draw_scenario(MemoryPainter& pen, const MemoryPlot& plot, const ScenarioCurves& curves);
  void draw_differences(QPainter& painter, QRectF area, QSize size, double pixels);
  void draw_instant(QPainter& painter, const Layout& layout, QSize size);
  void draw_read_out(QPainter& painter, const Layout& layout, QSize size);
  void go_to(std::size_t level);
  void step_level(int by);
  void next_peak();
  void set_cursor(std::optional<double> Cursors::*cursor, double time);
  double here() const;
  const MemorySideCurve* curve() const;

  std::shared_ptr<const MemoryPicture> picture_ = std::make_shared<const MemoryPicture>();
  MemoryLook look_;
  std::optional<double> instant_;
  std::optional<std::size_t> level_;  ///< of `side()`, where it was gone to
  std::optional<SideKind> side_;
  QPixmap layer_;
  LayerKey layer_key_;
};

}  // namespace shardscope::gui
