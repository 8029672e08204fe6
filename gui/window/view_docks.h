// The docks of a window's views, and how they are arranged.
#pragma once

#include <QObject>
#include <cstdint>
#include <vector>

#include "gui/base/view.h"
#include "gui/window/view_pane.h"

class QDockWidget;
class QMainWindow;

namespace shardscope::gui {

enum class Arrangement : std::uint8_t {
  tabs,     ///< one behind the other
  compare,  ///< the memory view over the timeline, the others behind the former
};

class ViewDocks : public QObject {
  Q_OBJECT
 public:
  ViewDocks(std::vector<View*> views, QMainWindow* window);
  /// The views with it: they do not outlive their workspace.
  ~ViewDocks() override;

  const std::vector<View*>& views() const { return views_; }
  void arrange(Arrangement arrangement);
  /// Upper and lower half get the same height.
  void balance();
  void set_shown(bool shown);
  void bring_up(View* view);
  /// `view` is all that is left, or everything is as it was before.
  void show_only(View* view);
  void show_as_before();
  bool shows_only_one() const { return !before_.isEmpty(); }

  /// The one that has, or had last, the focus.
  View* current() const { return current_; }
  ViewPane* pane_of(View* view) const;
  /// That `widget` is part of; null: of none.
  View* view_around(const QWidget* widget) const;

 private:
  QDockWidget* dock_of(View* view) const;
  void update_title_bars();
  void follow_focus(QWidget* now);

  QMainWindow* window_;
  std::vector<View*> views_;
  std::vector<QDockWidget*> docks_;
  View* current_ = nullptr;
  QByteArray before_;  ///< the window's state while one view is alone
};

}  // namespace shardscope::gui
