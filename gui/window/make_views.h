// The views of a window, in the order of their tabs.
#pragma once

#include <vector>

#include "gui/base/view.h"

namespace shardscope::gui {

/// Children of `parent`.
std::vector<View*> make_views(Workspace& workspace, QWidget* parent);

}  // namespace shardscope::gui
