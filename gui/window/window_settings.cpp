#include "gui/window/window_settings.h"

#include <algorithm>

namespace shardscope::gui {
namespace {

constexpr int most_recent_paths = 10;
const QString appearance_key = QStringLiteral("appearance");
const QString recent_key = QStringLiteral("recent");
const QString geometry_key = QStringLiteral("window/geometry");
const QString layout_key = QStringLiteral("window/layout");
const QString views_key = QStringLiteral("window/views");

}  // namespace

WindowSettings::WindowSettings()
    : settings_(QSettings::IniFormat, QSettings::UserScope, QStringLiteral("shardscope"),
                QStringLiteral("shardscope-gui")) {}

AppearanceChoice WindowSettings::appearance() const {
  const std::string name = settings_.value(appearance_key).toString().toStdString();
  const auto same = std::find(appearance_names.begin(), appearance_names.end(), name);
  return same == appearance_names.end()
             ? AppearanceChoice::system
             : static_cast<AppearanceChoice>(same - appearance_names.begin());
}

void WindowSettings::set_appearance(AppearanceChoice choice) {
  settings_.setValue(
      appearance_key,
      QString::fromLatin1(appearance_names[static_cast<std::size_t>(choice)].data()));
}

QStringList WindowSettings::recent() const { return settings_.value(recent_key).toStringList(); }

void WindowSettings::add_recent(const QString& path) {
  QStringList paths = recent();
  paths.removeAll(path);
  paths.prepend(path);
  settings_.setValue(recent_key, QStringList(paths.mid(0, most_recent_paths)));
}

QByteArray WindowSettings::geometry() const { return settings_.value(geometry_key).toByteArray(); }

QByteArray WindowSettings::layout(const QStringList& views) const {
  const bool fits = settings_.value(views_key).toStringList() == views;
  return fits ? settings_.value(layout_key).toByteArray() : QByteArray();
}

void WindowSettings::set_window(const QByteArray& geometry, const QByteArray& layout,
                                const QStringList& views) {
  settings_.setValue(geometry_key, geometry);
  settings_.setValue(layout_key, layout);
  settings_.setValue(views_key, views);
}

}  // namespace shardscope::gui
