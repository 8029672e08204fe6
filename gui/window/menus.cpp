#include "gui/window/menus.h"

#include <QAction>
#include <QMainWindow>
#include <QMenu>
#include <QMenuBar>
#include <map>
#include <utility>

namespace shardscope::gui {
namespace {

void show_state(QAction& action, const Command& command) {
  if (command.is_enabled) action.setEnabled(command.is_enabled());
  if (command.is_checked) action.setChecked(command.is_checked());
}

/// `&` would be taken for a mark.
QString plain(QString text) { return text.replace(u'&', QStringLiteral("&&")); }

}  // namespace

void add_menus(QMainWindow& window, const std::vector<Command>& commands) {
  std::map<QString, QMenu*> menus;
  for (const Command& command : commands) {
    QMenu*& menu = menus[command.group];
    if (menu == nullptr) menu = window.menuBar()->addMenu(plain(command.group));
    QAction* action = menu->addAction(plain(command.text));
    action->setShortcuts(command.keys);
    action->setCheckable(static_cast<bool>(command.is_checked));
    window.addAction(action);
    // A key asks, too: the state may have changed since the menu was open.
    QObject::connect(action, &QAction::triggered, &window, [command] {
      if (!command.is_enabled || command.is_enabled()) command.run();
    });
    QObject::connect(menu, &QMenu::aboutToShow, action,
                     [action, command] { show_state(*action, command); });
    QObject::connect(menu, &QMenu::aboutToHide, action, [action] { action->setEnabled(true); });
  }
}

void add_menu(QMainWindow& window, const QString& title,
              std::function<std::vector<Command>()> commands) {
  QMenu* menu = window.menuBar()->addMenu(plain(title));
  QObject::connect(menu, &QMenu::aboutToShow, menu, [menu, commands = std::move(commands)] {
    menu->clear();
    for (const Command& command : commands()) {
      const QString keys = QKeySequence::listToString(command.keys, QKeySequence::NativeText);
      QAction* action = menu->addAction(plain(command.group + QStringLiteral(": ") + command.text) +
                                        (keys.isEmpty() ? QString() : u'\t' + keys));
      action->setCheckable(static_cast<bool>(command.is_checked));
      show_state(*action, command);
      QObject::connect(action, &QAction::triggered, menu, command.run);
    }
    if (menu->isEmpty()) menu->addAction(QMenu::tr("nothing to do here"))->setEnabled(false);
  });
}

}  // namespace shardscope::gui
