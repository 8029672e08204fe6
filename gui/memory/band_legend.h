// The legend of memory bands: which are shown, by colour, letter and name.
#pragma once

#include <QWidget>
#include <array>

#include "gui/data/memory_bands.h"

class QToolButton;

namespace shardscope::gui {

/// A click or Space shows and hides a band; Alt+click or Return shows it alone, and then all again.
class BandLegend : public QWidget {
  Q_OBJECT
 public:
  explicit BandLegend(QWidget* parent = nullptr);

  BandSet shown() const { return shown_; }
  void set_shown(BandSet shown);
  /// Buttons of others are hidden.
  void set_held(BandSet held);
  QToolButton* button(std::size_t band) const { return buttons_[band]; }

 Q_SIGNALS:
  void shown_changed();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void toggle(std::size_t band);
  void solo(std::size_t band);
  void paint_swatches();

  std::array<QToolButton*, memory_band_count> buttons_{};
  BandSet shown_ = all_bands, held_ = all_bands;
};

}  // namespace shardscope::gui
