// A factor as a slider with an entry beside it, from an eighth to eight times.
#pragma once

#include <QWidget>

class QDoubleSpinBox;
class QLabel;
class QSlider;

namespace shardscope::gui {

class FactorSlider : public QWidget {
  Q_OBJECT
 public:
  static constexpr double largest = 8;

  /// `name` is what screen readers say: "Link bandwidth, factor".
  explicit FactorSlider(const QString& name, QWidget* parent = nullptr);

  double factor() const;
  void set_factor(double factor);
  /// The figure that comes of it: "720 GB/s".
  void show_figure(const QString& text);
  QSlider& slider() const { return *slider_; }

 Q_SIGNALS:
  void changed();

 private:
  QSlider* slider_;
  QDoubleSpinBox* entry_;
  QLabel* figure_;
};

}  // namespace shardscope::gui
