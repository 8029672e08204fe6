// Menus from commands: one for each group, in the order of their first commands.
#pragma once

#include <functional>
#include <vector>

#include "gui/base/command.h"

class QMainWindow;

namespace shardscope::gui {

/// Actions are the window's own, too, so that their keys count while the menu bar is hidden. States
/// are asked for whenever a menu opens.
void add_menus(QMainWindow& window, const std::vector<Command>& commands);

/// A menu that asks `commands` anew whenever it opens; keys are shown, and are others' to listen
/// to.
void add_menu(QMainWindow& window, const QString& title,
              std::function<std::vector<Command>()> commands);

/// Their keys count in the whole window, without a menu.
void add_keys(QMainWindow& window, const std::vector<Command>& commands);

}  // namespace shardscope::gui
