#include "gui/data/scenario.h"

#include "traces/analysis.h"

namespace shardscope::gui {

std::string_view name_of(SideKind kind) {
  return kind == SideKind::predicted ? "predicted" : "profiled";
}

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::holds:
      return "holds";
    case Severity::broken:
      return "broken";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "";
}

const Side* Scenario::side(SideKind kind) const {
  const std::optional<Side>& side = kind == SideKind::predicted ? predicted : profiled;
  return side ? &*side : nullptr;
}

const Summary* Scenario::summary() const {
  for (const std::optional<Side>* side : {&profiled, &predicted})
    if (*side && (*side)->summary) return &*(*side)->summary;
  return nullptr;
}

TimeWindow shown_step(const Trace& trace) {
  const std::vector<StepWindow> steps = step_windows(trace);
  if (steps.empty()) return device_window(trace);
  return steps[steady_step(steps)].window;
}

}  // namespace shardscope::gui
