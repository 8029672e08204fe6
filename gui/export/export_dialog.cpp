#include "gui/export/export_dialog.h"

#include <QFileDialog>
#include <QStandardPaths>

#include "core/error.h"
#include "core/format/atomic_file.h"
#include "gui/export/export_view.h"

namespace shardscope::gui {

std::filesystem::path ask_export_path(View& view, QWidget* parent) {
  const QStringList filters{QFileDialog::tr("Picture (*.png)"), QFileDialog::tr("Drawing (*.svg)"),
                            QFileDialog::tr("Page (*.pdf)"), QFileDialog::tr("Table (*.csv)"),
                            QFileDialog::tr("Markdown table (*.md)")};
  QString chosen = filters.front();
  const QString path = QFileDialog::getSaveFileName(
      parent, QFileDialog::tr("Export %1").arg(view.title()),
      view.objectName() + QStringLiteral(".png"), filters.join(QStringLiteral(";;")), &chosen);
  if (path.isEmpty()) return {};
  const std::filesystem::path file = path.toStdString();
  if (format_of(file)) return file;
  const QString ending = chosen.section(u'*', 1).chopped(1);
  return (path + ending).toStdString();
}

void export_to(View& view, const std::filesystem::path& path,
               const std::function<void(const QString&)>& done) {
  const auto format = format_of(path);
  if (!format) {
    throw Error({.where = path.string(),
                 .what = "its ending names no format",
                 .way_out = "give .png, .svg, .pdf, .csv or .md"});
  }
  const PictureSize size{.width = view.width(), .height = view.height()};
  view.workspace().tasks().run(
      &view,
      [encode = export_view(view, *format, size), path](std::stop_token) {
        const QByteArray bytes = encode();
        write_atomically(path, {bytes.constData(), static_cast<std::size_t>(bytes.size())});
        return bytes.size();
      },
      [path, done](qsizetype bytes) {
        done(QFileDialog::tr("%1: %2 bytes written")
                 .arg(QString::fromStdString(path.string()))
                 .arg(bytes));
      });
}

}  // namespace shardscope::gui
