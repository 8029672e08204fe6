#include "gui/export/export_dialog.h"

#include <QFileDialog>
#include <QPointer>
#include <QProgressDialog>
#include <QStandardPaths>
#include <cmath>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "gui/export/export_view.h"
#include "gui/export/table_reader.h"

namespace shardscope::gui {
namespace {

using Told = std::function<void(const QString&)>;

void write_beside(View& view, const Encoding& encode, const std::filesystem::path& path,
                  const Told& done) {
  view.workspace().tasks().run(
      &view,
      [encode, path](std::stop_token) {
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

/// Shows itself where reading takes long.
QProgressDialog* make_progress(View& view, const QString& file) {
  constexpr int steps = 1000, patience_ms = 500;
  auto* progress = new QProgressDialog(QFileDialog::tr("Reading the table for %1").arg(file),
                                       QFileDialog::tr("Cancel"), 0, steps, view.window());
  progress->setObjectName(QStringLiteral("export_progress"));
  progress->setMinimumDuration(patience_ms);
  QObject::connect(progress, &QProgressDialog::canceled, progress, &QObject::deleteLater);
  return progress;
}

void read_and_write(View& view, ExportFormat format, const std::filesystem::path& path,
                    const Told& done) {
  const QString file = QString::fromStdString(path.string());
  QProgressDialog* progress = make_progress(view, file);
  auto* reader = new TableReader(*view.table(), format, progress);
  // At once: before the dialog goes, a last slice could still be read.
  QObject::connect(progress, &QProgressDialog::canceled, &view,
                   [reader = QPointer(reader)] { delete reader; });
  QObject::connect(reader, &TableReader::progressed, progress, [progress](double share) {
    progress->setValue(static_cast<int>(std::lround(share * (progress->maximum() - 1))));
  });
  QObject::connect(reader, &TableReader::finished, &view,
                   [&view, progress, path, done](const QString& text) {
                     progress->deleteLater();
                     write_beside(
                         view, [text] { return text.toUtf8(); }, path, done);
                   });
  QObject::connect(reader, &TableReader::overtaken, &view, [progress, file, done] {
    progress->deleteLater();
    done(QFileDialog::tr("%1: not written, the table changed meanwhile; export again").arg(file));
  });
}

}  // namespace

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
  if (is_table(*format)) return read_and_write(view, *format, path, done);
  const PictureSize size{.width = view.width(), .height = view.height()};
  write_beside(view, export_view(view, *format, size), path, done);
}

}  // namespace shardscope::gui
