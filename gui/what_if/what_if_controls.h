// The controls of What-if: everything that can be turned, with its units.
#pragma once

#include <QScrollArea>
#include <array>

#include "gui/data/what_if_settings.h"
#include "sim/hardware/hardware_profile.h"

class QComboBox;
class QFormLayout;
class QSpinBox;

namespace shardscope::gui {

class FactorSlider;

class WhatIfControls : public QScrollArea {
  Q_OBJECT
 public:
  explicit WhatIfControls(QWidget* parent = nullptr);

  const WhatIfSettings& settings() const { return settings_; }
  /// Without `changed`.
  void set_settings(const WhatIfSettings& settings);
  /// The figures that the factors come to on this machine, which is scaled already.
  void show_machine(const HardwareProfile& machine);

 Q_SIGNALS:
  void changed();  ///< by hand

 private:
  void make_strategy(QFormLayout& form);
  void make_workload(QFormLayout& form);
  void make_machine(QFormLayout& form);
  QComboBox* add_choices(QFormLayout& form, const QString& text, const QString& name);
  QSpinBox* add_number(QFormLayout& form, const QString& text, int largest, const QString& one,
                       const QString& many);
  /// From the widgets, what one changes in others included.
  void read(const QObject* changed_one);
  void fill();
  void fill_meshes();
  void fill_prefetches();

  WhatIfSettings settings_;
  bool is_filling_ = false;
  QComboBox *runtime_, *sharding_, *mesh_, *prefetch_, *checkpointing_, *precision_, *cluster_;
  QSpinBox *ranks_, *blocks_, *batch_, *micro_batches_, *length_;
  QComboBox* reductions_;
  std::array<FactorSlider*, machine_figures.size()> factors_{};
};

}  // namespace shardscope::gui
