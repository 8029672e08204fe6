#include "gui/window/menus.h"

#include <QAction>
#include <QMainWindow>
#include <QMenu>
#include <QMenuBar>
#include <QStyle>
#include <map>
#include <utility>

#include "gui/window/mnemonics.h"

namespace shardscope::gui {
namespace {

void show_state(QAction& action, const Command& command) {
  if (command.is_enabled) action.setEnabled(command.is_enabled());
  if (command.is_checked) action.setChecked(command.is_checked());
}

/// A key asks, too: the state may have changed since a menu was open.
void connect_to(QAction& action, QMainWindow& window, const Command& command) {
  action.setShortcuts(command.keys);
  window.addAction(&action);
  QObject::connect(&action, &QAction::triggered, &window, [command] {
    if (!command.is_enabled || command.is_enabled()) command.run();
  });
}

/// `&` would be taken for a mark.
QString plain(QString text) { return text.replace(u'&', QStringLiteral("&&")); }

/// The menu of that title, which another part of the window may have begun.
QMenu* menu_of(QMainWindow& window, const QString& title) {
  for (QAction* action : window.menuBar()->actions())
    if (action->menu() != nullptr && without_mnemonic(action->text()) == title)
      return action->menu();
  return window.menuBar()->addMenu(plain(title));
}

}  // namespace

void add_menus(QMainWindow& window, const std::vector<Command>& commands) {
  std::map<QString, QMenu*> menus;
  for (const Command& command : commands) {
    QMenu*& menu = menus[command.group];
    if (menu == nullptr) menu = menu_of(window, command.group);
    QAction* action = menu->addAction(plain(command.text));
    action->setCheckable(static_cast<bool>(command.is_checked));
    if (command.icon) action->setIcon(window.style()->standardIcon(*command.icon));
    connect_to(*action, window, command);
    QObject::connect(menu, &QMenu::aboutToShow, action,
                     [action, command] { show_state(*action, command); });
    QObject::connect(menu, &QMenu::aboutToHide, action, [action] { action->setEnabled(true); });
  }
}

void add_menu(QMainWindow& window, const QString& title,
              std::function<std::vector<Command>()> commands) {
  QMenu* menu = window.menuBar()->addMenu(plain(title));
  QObject::connect(menu, &QMenu::aboutToShow, menu, [menu, title, commands = std::move(commands)] {
    menu->clear();
    for (const Command& command : commands()) {
      const QString keys = QKeySequence::listToString(command.keys, QKeySequence::NativeText);
      const QString name = command.group == title
                               ? command.text
                               : command.group + QStringLiteral(": ") + command.text;
      QAction* action =
          menu->addAction(plain(name) + (keys.isEmpty() ? QString() : QLatin1Char('\t') + keys));
      action->setCheckable(static_cast<bool>(command.is_checked));
      if (command.icon) action->setIcon(menu->style()->standardIcon(*command.icon));
      show_state(*action, command);
      QObject::connect(action, &QAction::triggered, menu, command.run);
    }
    if (menu->isEmpty()) menu->addAction(QMenu::tr("nothing to do here"))->setEnabled(false);
    give_mnemonics(*menu);
  });
}

void add_keys(QMainWindow& window, const std::vector<Command>& commands) {
  for (const Command& command : commands)
    connect_to(*new QAction(plain(command.text), &window), window, command);
}

}  // namespace shardscope::gui
