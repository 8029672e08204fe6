#include "gui/what_if/factor_slider.h"

#include <QDoubleSpinBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QSlider>
#include <cmath>

namespace shardscope::gui {
namespace {

/// Positions of the slider for each doubling.
constexpr int steps_of_octave = 40;

int position_of(double factor) {
  return static_cast<int>(std::lround(std::log2(factor) * steps_of_octave));
}
double factor_at(int position) {
  return std::exp2(static_cast<double>(position) / steps_of_octave);
}

}  // namespace

FactorSlider::FactorSlider(const QString& name, QWidget* parent)
    : QWidget(parent),
      slider_(new QSlider(Qt::Horizontal, this)),
      entry_(new QDoubleSpinBox(this)),
      figure_(new QLabel(this)) {
  slider_->setRange(position_of(1 / largest), position_of(largest));
  slider_->setTickInterval(steps_of_octave);
  slider_->setTickPosition(QSlider::TicksBelow);
  slider_->setPageStep(steps_of_octave / 2);
  slider_->setMinimumWidth(80);
  slider_->setAccessibleName(name);
  entry_->setRange(1 / largest, largest);
  entry_->setDecimals(3);
  entry_->setSingleStep(0.05);
  entry_->setValue(1);
  entry_->setPrefix(QStringLiteral("x "));
  entry_->setAccessibleName(name);
  figure_->setMinimumWidth(fontMetrics().horizontalAdvance(QStringLiteral("1234 TFLOP/s")));
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(slider_, 1);
  row->addWidget(entry_);
  row->addWidget(figure_);
  setFocusProxy(slider_);
  connect(slider_, &QSlider::valueChanged, this, [this](int position) {
    const QSignalBlocker quiet(entry_);
    entry_->setValue(factor_at(position));
    Q_EMIT changed();
  });
  connect(entry_, &QDoubleSpinBox::valueChanged, this, [this](double factor) {
    const QSignalBlocker quiet(slider_);
    slider_->setValue(position_of(factor));
    Q_EMIT changed();
  });
}

double FactorSlider::factor() const { return entry_->value(); }

void FactorSlider::set_factor(double factor) {
  const QSignalBlocker quiet_slider(slider_), quiet_entry(entry_);
  entry_->setValue(factor);
  slider_->setValue(position_of(factor));
}

void FactorSlider::show_figure(const QString& text) { figure_->setText(text); }

}  // namespace shardscope::gui
