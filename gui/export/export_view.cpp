#include "gui/export/export_view.h"

#include <QBuffer>
#include <QCoreApplication>
#include <QImage>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QSvgGenerator>
#include <cmath>

#include "core/base/version.h"
#include "gui/base/theme.h"
#include "gui/export/table_file.h"

namespace shardscope::gui {
namespace {

constexpr int margin = 16;       ///< logical pixels around everything
constexpr int logical_dpi = 96;  ///< as screens have it, so that text is as large as there

QString side_text(const char* letter, const ScenarioPointer& scenario) {
  const QString label = QString::fromStdString(scenario->label);
  const QString source = QString::fromStdString(scenario->path.string());
  return QStringLiteral("%1  %2").arg(
      QLatin1String(letter), source.isEmpty() ? label : label + QStringLiteral(": ") + source);
}

QStringList caption_of(const Workspace& workspace) {
  QStringList lines;
  if (workspace.a()) lines += side_text("A", workspace.a());
  if (workspace.b()) lines += side_text("B", workspace.b());
  return lines;
}

QString made_by() {
  const std::string_view version = program_version();
  return QStringLiteral("Shardscope ") +
         QString::fromUtf8(version.data(), static_cast<qsizetype>(version.size()));
}

QSize size_of(const PictureSize& size) { return {size.width, size.height}; }

using Draw = std::function<void(QPainter&)>;

Encoding png_of(const PictureSize& size, const Draw& draw) {
  QImage image(QSize(static_cast<int>(std::lround(size.width * size.scale)),
                     static_cast<int>(std::lround(size.height * size.scale))),
               QImage::Format_RGB32);
  image.setDevicePixelRatio(size.scale);
  image.fill(Qt::white);
  QPainter painter(&image);
  draw(painter);
  painter.end();
  return [image] {
    QByteArray bytes;
    QBuffer buffer(&bytes);
    buffer.open(QIODevice::WriteOnly);
    image.save(&buffer, "PNG");
    return bytes;
  };
}

QByteArray svg_of(const PictureSize& size, const QString& title, const Draw& draw) {
  QByteArray bytes;
  QBuffer buffer(&bytes);
  QSvgGenerator generator;
  generator.setOutputDevice(&buffer);
  generator.setResolution(logical_dpi);
  generator.setSize(size_of(size));
  generator.setViewBox(QRect(QPoint(), size_of(size)));
  generator.setTitle(title);
  QPainter painter(&generator);
  draw(painter);
  painter.end();
  return bytes;
}

/// A page for each of `pages`.
QByteArray pdf_of(const PictureSize& size, const std::vector<Draw>& pages) {
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  QPdfWriter writer(&buffer);
  writer.setCreator(made_by());
  writer.setResolution(logical_dpi);
  constexpr double points = 72.0 / logical_dpi;
  writer.setPageSize(QPageSize(QSizeF(size.width * points, size.height * points), QPageSize::Point,
                               {}, QPageSize::ExactMatch));
  writer.setPageMargins(QMarginsF());
  QPainter painter(&writer);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (i > 0) writer.newPage();
    painter.save();
    pages[i](painter);
    painter.restore();
  }
  painter.end();
  return bytes;
}

Encoding ready(const QByteArray& bytes) {
  return [bytes] { return bytes; };
}

}  // namespace

void draw_export_page(View& view, QPainter& painter, QSize page) {
  const Theme& theme = theme_of(view);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.fillRect(QRect(QPoint(), page), theme.background);
  QFont small = view.font();
  QFont large = small;
  large.setPointSizeF(small.pointSizeF() * 1.4);
  large.setBold(true);
  const int line = QFontMetrics(small).height();
  const int head = margin + QFontMetrics(large).height() + margin / 2;
  const QStringList caption = caption_of(view.workspace());
  const int foot =
      margin / 2 + static_cast<int>(std::max<qsizetype>(1, caption.size())) * line + margin;

  painter.setFont(large);
  painter.setPen(theme.ink);
  painter.drawText(QRect(margin, margin, page.width() - 2 * margin, head), Qt::AlignTop,
                   view.title());
  painter.setFont(small);
  painter.setPen(theme.faint_ink);
  const QRect below(margin, page.height() - foot + margin / 2, page.width() - 2 * margin, foot);
  const QFontMetrics metrics(small);
  const int room = below.width() - metrics.horizontalAdvance(made_by()) - margin;
  for (int i = 0; i < caption.size(); ++i)
    painter.drawText(below.left(), below.top() + i * line + metrics.ascent(),
                     metrics.elidedText(caption[i], Qt::ElideMiddle, room));
  painter.drawText(below, Qt::AlignTop | Qt::AlignRight, made_by());

  const QSize rest(page.width() - 2 * margin, page.height() - head - foot);
  if (rest.height() < 1) return;
  painter.save();
  painter.translate(margin, head);
  painter.setClipRect(QRect(QPoint(), rest));
  view.draw_page(painter, rest);
  painter.restore();
}

Encoding export_picture(ExportFormat format, const PictureSize& size, const QString& title,
                        const std::function<void(QPainter&)>& draw) {
  if (format == ExportFormat::svg) return ready(svg_of(size, title, draw));
  if (format == ExportFormat::pdf) return ready(pdf_of(size, {draw}));
  return png_of(size, draw);
}

Encoding export_view(View& view, ExportFormat format, const PictureSize& size) {
  if (format == ExportFormat::csv) return ready(csv_of(*view.table()).toUtf8());
  if (format == ExportFormat::markdown) return ready(markdown_of(*view.table()).toUtf8());
  return export_picture(format, size, view.title(),
                        [&](QPainter& painter) { draw_export_page(view, painter, size_of(size)); });
}

QByteArray export_pdf(const std::vector<View*>& views, const PictureSize& size,
                      const std::function<void(View&)>& before_each) {
  std::vector<Draw> pages;
  for (View* view : views) {
    pages.push_back([&before_each, view, &size](QPainter& painter) {
      if (before_each) before_each(*view);
      draw_export_page(*view, painter, size_of(size));
    });
  }
  return pdf_of(size, pages);
}

}  // namespace shardscope::gui
