// Views as pictures and tables, ready to be written.
#pragma once

#include <QByteArray>
#include <functional>
#include <vector>

#include "gui/base/view.h"
#include "gui/export/export_format.h"

class QPainter;

namespace shardscope::gui {

/// Title, the view, and a caption that names A, B and their files.
void draw_export_page(View& view, QPainter& painter, QSize page);

/// What is left to do once the view has been drawn or read: it needs neither the view nor its
/// thread.
using Encoding = std::function<QByteArray()>;

/// What `draw` draws on `size` logical pixels, as a PNG, SVG or PDF.
Encoding export_picture(ExportFormat format, const PictureSize& size, const QString& title,
                        const std::function<void(QPainter&)>& draw);
/// The view as the content of a file. Draws, or reads the table, at once.
Encoding export_view(View& view, ExportFormat format, const PictureSize& size);
/// A page for each view; `before_each` is called before it is drawn.
QByteArray export_pdf(const std::vector<View*>& views, const PictureSize& size,
                      const std::function<void(View&)>& before_each = {});

}  // namespace shardscope::gui
