#include "gui/window/key_sheet.h"

#include <QGridLayout>
#include <QLabel>
#include <QScrollArea>
#include <QShortcut>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

namespace shardscope::gui {
namespace {

constexpr int columns = 3, column_gap = 36, keys_width = 132;

struct Line {
  QString keys, text;
};

struct Group {
  QString name;
  std::vector<Line> lines;
};

/// What the mouse does on a time axis, which no command stands for.
Group mouse_lines() {
  const auto tr = [](const char* text) { return KeySheet::tr(text); };
  return {tr("Mouse on a time axis"),
          {{tr("Ctrl+wheel"), tr("Zoom at the mouse")},
           {tr("Shift+wheel"), tr("Earlier, later")},
           {tr("Drag"), tr("Mark a range; its edges can be dragged, Alt: without snapping")},
           {tr("Middle button, drag"), tr("Zoom to a range")},
           {tr("Shift+drag"), tr("Move the axis")},
           {tr("Click"), tr("Select; all views follow")}}};
}

std::vector<Group> groups_of(const std::vector<Command>& commands) {
  std::vector<Group> groups;
  for (const Command& command : commands) {
    if (command.keys.isEmpty()) continue;
    auto same = std::find_if(groups.begin(), groups.end(),
                             [&](const Group& group) { return group.name == command.group; });
    if (same == groups.end()) same = groups.insert(groups.end(), Group{command.group, {}});
    same->lines.push_back(
        {QKeySequence::listToString(command.keys, QKeySequence::NativeText), command.text});
  }
  groups.push_back(mouse_lines());
  return groups;
}

QWidget* widget_of(const Group& group, QWidget* parent) {
  auto* widget = new QWidget(parent);
  widget->setAccessibleName(group.name);
  auto* grid = new QGridLayout(widget);
  grid->setContentsMargins(0, 0, 0, column_gap / 3);
  grid->setColumnStretch(1, 1);
  grid->setVerticalSpacing(2);
  auto* name = new QLabel(QStringLiteral("<b>%1</b>").arg(group.name.toHtmlEscaped()), widget);
  grid->addWidget(name, 0, 0, 1, 2);
  for (std::size_t i = 0; i < group.lines.size(); ++i) {
    const int row = static_cast<int>(i) + 1;
    auto* keys = new QLabel(group.lines[i].keys, widget);
    auto* text = new QLabel(group.lines[i].text, widget);
    keys->setTextFormat(Qt::PlainText);
    text->setTextFormat(Qt::PlainText);
    text->setWordWrap(true);
    // A screen reader says what has the focus, and only that.
    text->setFocusPolicy(Qt::StrongFocus);
    text->setAccessibleName(QStringLiteral("%1, %2").arg(group.lines[i].text, group.lines[i].keys));
    keys->setMinimumWidth(keys_width);
    grid->addWidget(keys, row, 0, Qt::AlignTop);
    grid->addWidget(text, row, 1, Qt::AlignTop);
  }
  return widget;
}

}  // namespace

KeySheet::KeySheet(const std::vector<Command>& commands, QWidget* parent) : QDialog(parent) {
  setObjectName(QStringLiteral("key_sheet"));
  setAttribute(Qt::WA_DeleteOnClose);
  setWindowTitle(tr("Keys"));
  auto* sheet = new QWidget(this);
  auto* row = new QHBoxLayout(sheet);
  row->setSpacing(column_gap);
  std::vector<QVBoxLayout*> stacks;
  for (int i = 0; i < columns; ++i) {
    stacks.push_back(new QVBoxLayout());
    row->addLayout(stacks.back(), 1);
  }
  // Each group goes where there is most room.
  std::vector<std::size_t> filled(columns, 0);
  for (const Group& group : groups_of(commands)) {
    const auto least = std::min_element(filled.begin(), filled.end());
    *least += group.lines.size() + 2;
    stacks[static_cast<std::size_t>(least - filled.begin())]->addWidget(widget_of(group, sheet));
  }
  for (QVBoxLayout* stack : stacks) stack->addStretch(1);
  auto* area = new QScrollArea(this);
  area->setWidget(sheet);
  area->setWidgetResizable(true);
  area->setFrameShape(QFrame::NoFrame);
  area->setFocusPolicy(Qt::NoFocus);
  sheet->setStyleSheet(QStringLiteral(
      "QLabel:focus { background: palette(highlight); color: palette(highlighted-text); }"));
  const auto step = [this, area](bool next) {
    focusNextPrevChild(next);
    if (focusWidget() != nullptr) area->ensureWidgetVisible(focusWidget());
  };
  connect(new QShortcut(Qt::Key_Down, this), &QShortcut::activated, this, [=] { step(true); });
  connect(new QShortcut(Qt::Key_Up, this), &QShortcut::activated, this, [=] { step(false); });
  auto* layout = new QVBoxLayout(this);
  layout->addWidget(area);
  resize(std::min(1100, parent->width()), std::min(680, parent->height()));
}

}  // namespace shardscope::gui
