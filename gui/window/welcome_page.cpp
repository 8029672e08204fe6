#include "gui/window/welcome_page.h"

#include <QDir>
#include <QFileInfo>
#include <QGridLayout>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

namespace shardscope::gui {
namespace {

constexpr int most_shown = 3, text_width = 640;
constexpr const char* demo_folder = "runs/demo";

QPushButton* link_button(const QString& text, QWidget* parent) {
  auto* button = new QPushButton(text, parent);
  button->setFlat(true);
  button->setCursor(Qt::PointingHandCursor);
  button->setStyleSheet(QStringLiteral("text-align: left; padding: 3px;"));
  return button;
}

}  // namespace

WelcomePage::WelcomePage(QWidget* parent) : QWidget(parent) {
  setObjectName(QStringLiteral("welcome_page"));
  setAccessibleName(tr("Welcome"));
  auto* title = new QLabel(tr("Predicted runs over profiled ones"), this);
  QFont large = title->font();
  large.setPointSizeF(large.pointSizeF() * 1.8);
  title->setFont(large);
  auto* what = new QLabel(
      tr("Open run folders of <i>shardscope train</i>, <i>simulate</i> or <i>import</i>; traces of "
         "PyTorch's profiler (.pt.trace.json, .json.gz), CUDA memory snapshots (.pickle), exports "
         "of Nsight Systems (.sqlite); or a folder of any of these. They can be dropped here, too. "
         "Two that are open are compared as A and B."),
      this);
  what->setWordWrap(true);
  what->setMaximumWidth(text_width);

  auto* folder = new QPushButton(tr("Open run folder..."), this);
  auto* file = new QPushButton(tr("Open trace or snapshot..."), this);
  auto* demo = new QPushButton(tr("Open the demo's runs"), this);
  folder->setDefault(true);
  demo->setVisible(QFileInfo(QString::fromLatin1(demo_folder)).isDir());
  auto* buttons = new QHBoxLayout();
  for (QPushButton* button : {folder, file, demo}) buttons->addWidget(button);
  buttons->addStretch(1);
  auto* keys =
      new QLabel(tr("Ctrl+Shift+P finds every command by its name; ? lists the keys."), this);

  recent_ = new QVBoxLayout();
  auto* column = new QVBoxLayout();
  column->addWidget(title);
  column->addSpacing(8);
  column->addWidget(what);
  column->addSpacing(12);
  column->addLayout(buttons);
  column->addSpacing(12);
  column->addLayout(recent_);
  column->addSpacing(12);
  column->addWidget(keys);
  auto* layout = new QGridLayout(this);
  layout->setRowStretch(0, 2);
  layout->addLayout(column, 1, 1);
  layout->setRowStretch(2, 3);
  layout->setColumnStretch(0, 1);
  layout->setColumnStretch(2, 1);
  connect(folder, &QPushButton::clicked, this, &WelcomePage::wants_folder);
  connect(file, &QPushButton::clicked, this, &WelcomePage::wants_file);
  connect(demo, &QPushButton::clicked, this,
          [this] { Q_EMIT wants(QDir::current().filePath(QString::fromLatin1(demo_folder))); });
}

void WelcomePage::set_recent(const QStringList& paths) {
  while (QLayoutItem* item = recent_->takeAt(0)) {
    delete item->widget();
    delete item;
  }
  if (paths.isEmpty()) return;
  recent_->addWidget(new QLabel(tr("Opened last:"), this));
  for (const QString& path : paths.first(std::min<qsizetype>(paths.size(), most_shown))) {
    QPushButton* button = link_button(path, this);
    recent_->addWidget(button);
    connect(button, &QPushButton::clicked, this, [this, path] { Q_EMIT wants(path); });
  }
}

}  // namespace shardscope::gui
