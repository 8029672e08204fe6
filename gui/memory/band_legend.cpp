#include "gui/memory/band_legend.h"

#include <QApplication>
#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QPainter>
#include <QPixmap>
#include <QToolButton>

#include "gui/base/text.h"
#include "gui/base/theme.h"

namespace shardscope::gui {
namespace {

QIcon swatch(const Theme& theme, std::size_t band, double pixels) {
  constexpr int side = 16;
  QIcon icon;
  for (const QIcon::State state : {QIcon::On, QIcon::Off}) {
    QPixmap pixmap(QSize(side, side) * pixels);
    pixmap.setDevicePixelRatio(pixels);
    pixmap.fill(Qt::transparent);
    QPainter painter(&pixmap);
    const QColor colour = theme.of_band(band);
    const QRect box(1, 1, side - 2, side - 2);
    if (state == QIcon::On) painter.fillRect(box, colour);
    painter.setPen(colour);
    painter.drawRect(box.adjusted(0, 0, -1, -1));
    QFont font = painter.font();
    font.setPixelSize(11);
    font.setBold(true);
    painter.setFont(font);
    painter.setPen(state == QIcon::On ? theme.text_on(colour) : theme.faint_ink);
    painter.drawText(box, Qt::AlignCenter, QString(QLatin1Char(band_letter(band))));
    painter.end();
    icon.addPixmap(pixmap, QIcon::Normal, state);
  }
  return icon;
}

}  // namespace

BandLegend::BandLegend(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Legend of memory categories"));
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(4, 0, 4, 0);
  row->setSpacing(2);
  for (std::size_t band = 0; band < memory_band_count; ++band) {
    auto* button = new QToolButton(this);
    const QString name = text_of(band_name(band));
    button->setText(name);
    button->setAccessibleName(name);
    button->setToolTip(
        tr("%1: click or Space shows and hides, Alt+click or Return shows it alone").arg(name));
    button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    button->setAutoRaise(true);
    button->setCheckable(true);
    button->setChecked(true);
    button->setFocusPolicy(Qt::StrongFocus);
    button->installEventFilter(this);
    connect(button, &QToolButton::clicked, this, [this, band] {
      if (QApplication::keyboardModifiers() & Qt::AltModifier)
        solo(band);
      else
        toggle(band);
    });
    buttons_[band] = button;
    row->addWidget(button);
  }
  row->addStretch();
  paint_swatches();
}

void BandLegend::set_shown(BandSet shown) {
  for (std::size_t band = 0; band < memory_band_count; ++band)
    buttons_[band]->setChecked(shown[band]);
  if (shown_ == shown) return;
  shown_ = shown;
  Q_EMIT shown_changed();
}

void BandLegend::set_held(BandSet held) {
  held_ = held;
  for (std::size_t band = 0; band < memory_band_count; ++band)
    buttons_[band]->setVisible(held[band]);
}

void BandLegend::toggle(std::size_t band) {
  BandSet shown = shown_;
  set_shown(shown.flip(band));
}

void BandLegend::solo(std::size_t band) {
  const BandSet alone = BandSet().set(band);
  set_shown((shown_ & held_) == alone ? all_bands : alone);
}

bool BandLegend::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::KeyPress) return QWidget::eventFilter(watched, event);
  const int key = static_cast<QKeyEvent*>(event)->key();
  if (key != Qt::Key_Return && key != Qt::Key_Enter) return QWidget::eventFilter(watched, event);
  for (std::size_t band = 0; band < memory_band_count; ++band)
    if (buttons_[band] == watched) solo(band);
  return true;
}

void BandLegend::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) paint_swatches();
  QWidget::changeEvent(event);
}

void BandLegend::paint_swatches() {
  const Theme& theme = theme_of(*this);
  for (std::size_t band = 0; band < memory_band_count; ++band)
    buttons_[band]->setIcon(swatch(theme, band, devicePixelRatioF()));
}

}  // namespace shardscope::gui
