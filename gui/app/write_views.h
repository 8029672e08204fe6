// --export: views of a window that nobody sees, as files.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "gui/app/command_line.h"
#include "gui/window/main_window.h"

namespace shardscope::gui {

/// Waits until what `window` opens and computes is there, and writes what is asked for; each file
/// whole or not at all. `check` is called before anything is written and may throw. Returns what
/// was written. Throws Error where a view is unknown or a file cannot be written.
std::vector<std::filesystem::path> write_views(MainWindow& window, const ExportRequest& request,
                                               const std::function<void()>& check = {});

}  // namespace shardscope::gui
