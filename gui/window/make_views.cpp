#include "gui/window/make_views.h"

#include "gui/diagnostics/diagnostics_view.h"
#include "gui/flame/flame_view.h"
#include "gui/memory/memory_view.h"
#include "gui/query/query_view.h"
#include "gui/snapshots/snapshots_view.h"
#include "gui/strategies/strategies_view.h"
#include "gui/timeline/timeline_view.h"
#include "gui/units/units_view.h"
#include "gui/what_if/what_if_view.h"

namespace shardscope::gui {

std::vector<View*> make_views(Workspace& workspace, QWidget* parent) {
  return {
      new StrategiesView(workspace, parent), new MemoryView(workspace, parent),
      new TimelineView(workspace, parent),   new UnitsView(workspace, parent),
      new WhatIfView(workspace, parent),     new DiagnosticsView(workspace, parent),
      new SnapshotsView(workspace, parent),  new QueryView(workspace, parent),
      new FlameView(workspace, parent),
  };
}

}  // namespace shardscope::gui
