#include "gui/base/view.h"

#include <QKeyEvent>
#include <QPainter>

namespace shardscope::gui {

View::View(const QString& id, const QString& title, Workspace& workspace, QWidget* parent)
    : QWidget(parent), title_(title), workspace_(workspace) {
  setObjectName(id);
  setAccessibleName(title);
}

void View::draw_page(QPainter& painter, QSize page) {
  const QSize before = size();
  resize(page);
  render(&painter, QPoint(), QRegion(), QWidget::DrawWindowBackground | QWidget::DrawChildren);
  resize(before);
}

void View::keyPressEvent(QKeyEvent* event) {
  const QKeySequence pressed(event->keyCombination());
  for (const Command& command : commands())
    if (command.keys.contains(pressed) && (!command.is_enabled || command.is_enabled()))
      return command.run();
  QWidget::keyPressEvent(event);
}

}  // namespace shardscope::gui
