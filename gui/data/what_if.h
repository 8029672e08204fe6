// What-if: the prediction for settings that are being tried, and what it hangs on.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "gui/data/what_if_inputs.h"
#include "sim/engine/step_program.h"
#include "sim/hardware/scaled_profile.h"
#include "sim/prediction/prediction.h"

namespace shardscope::gui {

/// A prediction as a scenario that views draw, or why there is none.
struct WhatIfAnswer {
  WhatIfSettings settings;
  ScenarioPointer scenario;        ///< with a predicted side alone; null: refused
  std::vector<std::string> notes;  ///< what the prediction leaves out
  std::string refusal;             ///< what the real library raises or we do not model, one line
  double elapsed_ms = 0;           ///< of computing it
  bool was_cached = false;         ///< the schedule was there: only the machine changed
};

/// How much longer a step takes with one of the machine's figures a fifth lower and higher.
struct Sensitivity {
  std::string_view figure;  ///< of `machine_figures`
  Duration lower, higher;   ///< step time less the one as it is
};
inline constexpr double sensitivity_factor = 1.2;  ///< times, and divided by

/// Predicts changes of a run. Thread-safe; schedules that were recorded last are kept, so that only
/// what changed is computed again.
class WhatIf {
 public:
  explicit WhatIf(WhatIfInputsPointer inputs) : inputs_(std::move(inputs)) {}

  const WhatIfInputs& inputs() const { return *inputs_; }
  /// The machine of these settings. Throws Error where no profile has the name.
  HardwareProfile machine(const WhatIfSettings& settings) const;

  /// `with_band`: how uncertain the step time is, too. What `stop` interrupts has neither scenario
  /// nor refusal.
  WhatIfAnswer answer(const WhatIfSettings& settings, bool with_band, const std::stop_token& stop);

  /// The figures that move the step time, the one that moves it most first; empty when stopped or
  /// refused.
  std::vector<Sensitivity> sensitivity(const WhatIfSettings& settings, const std::stop_token& stop);

 private:
  using SchedulePointer = std::shared_ptr<const Schedule>;
  /// What a schedule depends on.
  struct Key {
    planner::Choice choice;
    std::int64_t length = 0;
    std::string cluster;
    double memory = 1;  ///< its scale, where loading looks at what is free
    bool operator==(const Key&) const = default;
  };
  struct Found {
    SchedulePointer schedule;
    bool was_there = false;
  };

  Found schedule_of(const WhatIfSettings& settings, const HardwareProfile& machine);
  Prediction predict(const WhatIfSettings& settings, const HardwareProfile& machine,
                     const Schedule& schedule, bool with_band) const;
  SchedulePointer record(const WhatIfSettings& settings, const HardwareProfile& machine) const;

  WhatIfInputsPointer inputs_;
  std::mutex mutex_;
  std::list<std::pair<Key, SchedulePointer>> kept_;  ///< the one used last in front
};

/// A figure of two predictions.
struct FigureRow {
  std::string name;  ///< "step time"
  std::string unit;  ///< of the numbers
  std::string before, after, difference;
  double before_number = 0, after_number = 0;
  int better = 0;  ///< 1: after is the better one, -1: the worse; 0: neither
};
/// Of two scenarios with predicted summaries: step time, its parts, throughput, peaks by category,
/// margin.
std::vector<FigureRow> figures_beside(const ScenarioPointer& before, const ScenarioPointer& after);

}  // namespace shardscope::gui
