// A combo box whose value a screen reader says.
#pragma once

#include <QAbstractItemView>
#include <QAccessible>
#include <QComboBox>

namespace shardscope::gui {

/// Qt 6.4 gives AT-SPI a combo box's value as its name, and Orca 43 says the label in the place of
/// the name. It says descriptions when the focus comes, and not when they change.
class ChoiceBox : public QComboBox {
 public:
  explicit ChoiceBox(QWidget* parent = nullptr) : QComboBox(parent) {
    connect(this, &QComboBox::currentTextChanged, this, [this](const QString& text) {
      setAccessibleDescription(text);
      if (QAccessible::isActive() && hasFocus()) tell_item();
    });
  }

 protected:
  void focusInEvent(QFocusEvent* event) override {
    // Signals are blocked where views fill their boxes.
    setAccessibleDescription(currentText());
    QComboBox::focusInEvent(event);
  }

 private:
  /// As the item of an open list is told.
  void tell_item() {
    QAccessibleEvent event(view(), QAccessible::Focus);
    event.setChild(currentIndex());
    QAccessible::updateAccessibility(&event);
  }
};

}  // namespace shardscope::gui
