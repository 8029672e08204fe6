// File > Export: asks where a view is to go, and writes it there.
#pragma once

#include <QString>
#include <filesystem>
#include <functional>

#include "gui/base/view.h"

namespace shardscope::gui {

/// Where to, by a dialog; empty: cancelled. The name's ending says the format.
std::filesystem::path ask_export_path(View& view, QWidget* parent);

/// Draws at once, or reads the table between events with a progress dialog that can cancel; writes
/// beside the UI thread, and tells of it: `done` gets one line, a failure is told by the
/// workspace's tasks. The picture is as large as the view is now.
void export_to(View& view, const std::filesystem::path& path,
               const std::function<void(const QString&)>& done);

}  // namespace shardscope::gui
