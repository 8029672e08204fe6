#include "gui/base/spoken.h"

#include <QAccessible>
#include <QAccessibleWidget>
#include <QStackedWidget>
#include <QWindow>
#include <mutex>
#include <optional>

namespace shardscope::gui {
namespace {

/// Stands for what is selected in a picture.
class SpokenItem final : public QAccessibleInterface {
 public:
  SpokenItem(QWidget* picture, QString text) : picture_(picture), text_(std::move(text)) {}

  bool isValid() const override { return true; }
  QObject* object() const override { return nullptr; }
  QWindow* window() const override { return picture_->window()->windowHandle(); }
  QAccessibleInterface* parent() const override {
    return QAccessible::queryAccessibleInterface(picture_);
  }
  QAccessibleInterface* child(int) const override { return nullptr; }
  QAccessibleInterface* childAt(int, int) const override { return nullptr; }
  int childCount() const override { return 0; }
  int indexOfChild(const QAccessibleInterface*) const override { return -1; }
  QString text(QAccessible::Text kind) const override {
    return kind == QAccessible::Name ? text_ : QString();
  }
  void setText(QAccessible::Text, const QString&) override {}
  QRect rect() const override { return {picture_->mapToGlobal(QPoint(0, 0)), picture_->size()}; }
  QAccessible::Role role() const override { return QAccessible::ListItem; }
  QAccessible::State state() const override {
    QAccessible::State state;
    state.focusable = state.focused = state.selectable = state.selected = true;
    return state;
  }

 private:
  QWidget* picture_;
  QString text_;
};

/// A picture with the item that was said last.
class SpokenPicture final : public QAccessibleWidget {
 public:
  explicit SpokenPicture(QWidget* picture) : QAccessibleWidget(picture, QAccessible::Client) {}
  ~SpokenPicture() override { forget(); }

  int childCount() const override { return item_ ? 1 : 0; }
  QAccessibleInterface* child(int index) const override {
    return item_ && index == 0 ? QAccessible::accessibleInterface(*item_) : nullptr;
  }
  int indexOfChild(const QAccessibleInterface* item) const override {
    return item != nullptr && item == child(0) ? 0 : -1;
  }
  QAccessibleInterface* focusChild() const override {
    return widget()->hasFocus() ? child(0) : nullptr;
  }

  /// Each text is an item of its own: a reader says nothing where the focus stays.
  void show(const QString& text) {
    forget();
    item_ = QAccessible::registerAccessibleInterface(new SpokenItem(widget(), text));
  }

 private:
  void forget() {
    if (item_) QAccessible::deleteAccessibleInterface(*item_);
    item_.reset();
  }

  std::optional<QAccessible::Id> item_;
};

/// Pages of which one is shown: a panel that holds this one. Qt's own role for it makes readers say
/// "layered pane" before each page.
class ShownPage final : public QAccessibleWidget {
 public:
  explicit ShownPage(QStackedWidget* pages) : QAccessibleWidget(pages, QAccessible::Pane) {}

  int childCount() const override { return shown() == nullptr ? 0 : 1; }
  QAccessibleInterface* child(int index) const override {
    return index == 0 ? QAccessible::queryAccessibleInterface(shown()) : nullptr;
  }
  int indexOfChild(const QAccessibleInterface* item) const override {
    return item != nullptr && item->object() == shown() ? 0 : -1;
  }

 private:
  QWidget* shown() const { return static_cast<QStackedWidget*>(widget())->currentWidget(); }
};

constexpr const char* speaks = "shardscope_speaks";

QAccessibleInterface* interface_of(const QString&, QObject* object) {
  if (auto* pages = qobject_cast<QStackedWidget*>(object)) return new ShownPage(pages);
  auto* widget = qobject_cast<QWidget*>(object);
  if (widget == nullptr || !widget->property(speaks).toBool()) return nullptr;
  return new SpokenPicture(widget);
}

}  // namespace

void speak_of_pages() {
  static std::once_flag once;
  std::call_once(once, [] { QAccessible::installFactory(interface_of); });
}

void let_speak(QWidget& picture) {
  speak_of_pages();
  picture.setProperty(speaks, true);
}

void say(QWidget& picture, const QString& text) {
  picture.setAccessibleDescription(text);
  if (!picture.hasFocus()) return;
  auto* told = dynamic_cast<SpokenPicture*>(QAccessible::queryAccessibleInterface(&picture));
  if (told == nullptr) return;
  told->show(text);
  QAccessibleEvent event(&picture, QAccessible::Focus);
  event.setChild(0);
  QAccessible::updateAccessibility(&event);
}

}  // namespace shardscope::gui
