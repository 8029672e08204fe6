#include "gui/window/view_docks.h"

#include <QApplication>
#include <QDockWidget>
#include <QLayout>
#include <QMainWindow>
#include <algorithm>

namespace shardscope::gui {
namespace {

/// In the lower half while views are compared.
const QStringList lower_views{QStringLiteral("timeline")};
/// In front of the upper half then.
const QString upper_view = QStringLiteral("memory");

}  // namespace

ViewDocks::ViewDocks(std::vector<View*> views, QMainWindow* window)
    : QObject(window), window_(window), views_(std::move(views)) {
  for (View* view : views_) {
    auto* dock = new QDockWidget(view->title(), window);
    dock->setObjectName(view->objectName() + QStringLiteral("_dock"));
    dock->setWidget(new ViewPane(view, dock));
    connect(dock, &QDockWidget::dockLocationChanged, this, &ViewDocks::update_title_bars);
    connect(dock, &QDockWidget::topLevelChanged, this, &ViewDocks::update_title_bars);
    connect(dock, &QDockWidget::visibilityChanged, this, [this, view](bool is_visible) {
      if (is_visible && current_ == nullptr) current_ = view;
      update_title_bars();
    });
    docks_.push_back(dock);
  }
  connect(qApp, &QApplication::focusChanged, this,
          [this](QWidget*, QWidget* now) { follow_focus(now); });
  arrange(Arrangement::tabs);
  if (!views_.empty()) current_ = views_.front();
}

ViewDocks::~ViewDocks() {
  for (QDockWidget* dock : docks_) dock->disconnect(this);
  for (QDockWidget* dock : docks_) delete dock;
}

void ViewDocks::arrange(Arrangement arrangement) {
  // Docks that stand side by side on their way into tabs would make the window larger.
  const QSize size = window_->size();
  QDockWidget* upper = nullptr;
  QDockWidget* lower = nullptr;
  QDockWidget* memory = nullptr;
  for (QDockWidget* dock : docks_) {
    window_->removeDockWidget(dock);
    dock->setFloating(false);
    const QString view = static_cast<ViewPane*>(dock->widget())->view()->objectName();
    const bool is_lower = arrangement == Arrangement::compare && lower_views.contains(view);
    QDockWidget*& before = is_lower ? lower : upper;
    window_->addDockWidget(is_lower ? Qt::BottomDockWidgetArea : Qt::TopDockWidgetArea, dock);
    if (before != nullptr) window_->tabifyDockWidget(before, dock);
    before = dock;
    dock->show();
    if (arrangement == Arrangement::compare && view == upper_view) memory = dock;
  }
  if (memory != nullptr) memory->raise();
  balance();
  update_title_bars();
  if (!window_->isVisible() || window_->isMaximized() || window_->isFullScreen()) return;
  // Views lay themselves out once they are shown, and only then want no more than they need.
  const auto shrink = [this, size] {
    window_->layout()->activate();
    window_->resize(size);
  };
  shrink();
  QMetaObject::invokeMethod(this, shrink, Qt::QueuedConnection);
}

void ViewDocks::balance() {
  QList<QDockWidget*> halves;
  for (const auto area : {Qt::TopDockWidgetArea, Qt::BottomDockWidgetArea})
    for (QDockWidget* dock : docks_)
      if (window_->dockWidgetArea(dock) == area && !dock->isHidden()) {
        halves.push_back(dock);
        break;
      }
  const int half = window_->height() / 2;
  if (halves.size() == 2) window_->resizeDocks(halves, {half, half}, Qt::Vertical);
}

void ViewDocks::set_shown(bool shown) {
  for (QDockWidget* dock : docks_) dock->setVisible(shown);
}

void ViewDocks::bring_up(View* view) {
  QDockWidget* dock = dock_of(view);
  if (dock == nullptr) return;
  dock->show();
  dock->raise();
  current_ = view;
  view->setFocus();
}

void ViewDocks::show_only(View* view) {
  if (dock_of(view) == nullptr) return;
  if (before_.isEmpty()) before_ = window_->saveState();
  for (View* other : views_)
    if (other != view) dock_of(other)->hide();
  bring_up(view);
}

void ViewDocks::show_as_before() {
  window_->restoreState(std::exchange(before_, QByteArray()));
  update_title_bars();
}

ViewPane* ViewDocks::pane_of(View* view) const {
  QDockWidget* dock = dock_of(view);
  return dock == nullptr ? nullptr : static_cast<ViewPane*>(dock->widget());
}

QDockWidget* ViewDocks::dock_of(View* view) const {
  const auto place = std::find(views_.begin(), views_.end(), view);
  return place == views_.end() ? nullptr : docks_[static_cast<std::size_t>(place - views_.begin())];
}

void ViewDocks::update_title_bars() {
  for (QDockWidget* dock : docks_) {
    const bool has_tab = !dock->isFloating() && !window_->tabifiedDockWidgets(dock).isEmpty();
    const bool has_bar = dock->titleBarWidget() == nullptr;
    if (has_tab && has_bar) dock->setTitleBarWidget(new QWidget(dock));
    if (!has_tab && !has_bar) {
      QWidget* empty = dock->titleBarWidget();
      dock->setTitleBarWidget(nullptr);
      empty->deleteLater();
    }
  }
}

View* ViewDocks::view_around(const QWidget* widget) const {
  for (; widget != nullptr; widget = widget->parentWidget())
    if (const auto* pane = qobject_cast<const ViewPane*>(widget)) return pane->view();
  return nullptr;
}

void ViewDocks::follow_focus(QWidget* now) {
  View* view = view_around(now);
  if (dock_of(view) != nullptr) current_ = view;
}

}  // namespace shardscope::gui
