#include "gui/window/command_palette.h"

#include <QCoreApplication>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListWidget>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/data/fuzzy_match.h"

namespace shardscope::gui {
namespace {

constexpr int palette_width = 560, palette_height = 420, distance_from_top = 60;

QString name_of(const Command& command) {
  return command.group + QStringLiteral(": ") + command.text;
}

bool can_run(const Command& command) { return !command.is_enabled || command.is_enabled(); }

/// Places in `commands`, the best first; with nothing typed, in their own order.
std::vector<std::size_t> matches(const std::vector<Command>& commands, const QString& typed) {
  struct Match {
    int score;
    std::size_t place;
  };
  std::vector<Match> found;
  const std::string letters = typed.toStdString();
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const auto score = fuzzy_score(letters, name_of(commands[i]).toStdString());
    if (score) found.push_back({typed.isEmpty() ? 0 : *score, i});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Match& one, const Match& other) { return one.score > other.score; });
  std::vector<std::size_t> places;
  for (const Match& match : found) places.push_back(match.place);
  return places;
}

}  // namespace

CommandPalette::CommandPalette(std::vector<Command> commands, QWidget* parent)
    : QDialog(parent, Qt::Popup | Qt::FramelessWindowHint), commands_(std::move(commands)) {
  setObjectName(QStringLiteral("command_palette"));
  setAttribute(Qt::WA_DeleteOnClose);
  setAccessibleName(tr("Command palette"));
  typed_ = new QLineEdit(this);
  typed_->setPlaceholderText(tr("What to do: letters of its name"));
  typed_->setAccessibleName(tr("Letters of a command's name"));
  typed_->setClearButtonEnabled(true);
  typed_->installEventFilter(this);
  list_ = new QListWidget(this);
  list_->setAccessibleName(tr("Commands"));
  list_->setUniformItemSizes(true);
  list_->setFocusPolicy(Qt::NoFocus);
  auto* layout = new QVBoxLayout(this);
  layout->addWidget(typed_);
  layout->addWidget(list_);
  connect(typed_, &QLineEdit::textChanged, this, &CommandPalette::fill);
  connect(typed_, &QLineEdit::returnPressed, this, &CommandPalette::run_chosen);
  connect(list_, &QListWidget::itemClicked, this, &CommandPalette::run_chosen);
  fill({});
  const QRect window = parent->rect();
  resize(std::min(palette_width, window.width()), std::min(palette_height, window.height()));
  move(parent->mapToGlobal(QPoint((window.width() - width()) / 2, distance_from_top)));
  typed_->setFocus();
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (key == Qt::Key_Up || key == Qt::Key_Down || key == Qt::Key_PageUp ||
        key == Qt::Key_PageDown)
      return QCoreApplication::sendEvent(list_, event);
  }
  return QDialog::eventFilter(watched, event);
}

void CommandPalette::fill(const QString& typed) {
  list_->clear();
  for (const std::size_t place : matches(commands_, typed)) {
    const Command& command = commands_[place];
    const QString keys = QKeySequence::listToString(command.keys, QKeySequence::NativeText);
    const bool is_on = command.is_checked && command.is_checked();
    auto* item = new QListWidgetItem(name_of(command) + (is_on ? tr("  (on)") : QString()) +
                                     (keys.isEmpty() ? QString() : QStringLiteral("    ") + keys));
    item->setData(Qt::UserRole, QVariant::fromValue(place));
    if (!can_run(command)) item->setFlags(Qt::NoItemFlags);
    list_->addItem(item);
  }
  list_->setCurrentRow(0);
}

void CommandPalette::run_chosen() {
  const QListWidgetItem* item = list_->currentItem();
  if (item == nullptr || !item->flags().testFlag(Qt::ItemIsEnabled)) return;
  const auto run = commands_[item->data(Qt::UserRole).value<std::size_t>()].run;
  // The window is active again by then, so that what asks for the focus gets it.
  QTimer::singleShot(0, parent(), run);
  accept();
}

}  // namespace shardscope::gui
