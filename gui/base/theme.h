// Colours of the views, light and dark. Source: Okabe and Ito, "Color Universal Design", 2008, as
// in traces/palette.h; every colour comes with a second cue (outline, hatch, sign or text).
#pragma once

#include <QBrush>
#include <QColor>
#include <QPalette>
#include <cstdint>

#include "core/schedule/schedule.h"
#include "gui/data/scenario.h"
#include "traces/trace.h"

class QApplication;
class QWidget;

namespace shardscope::gui {

enum class Appearance : std::uint8_t { light, dark };

struct Theme {
  Appearance appearance = Appearance::light;
  QColor background, lane, grid, ink, faint_ink, accent, selection;
  QColor exposed, idle;
  QColor more, less;  ///< predicted above and below profiled: orange and blue, never red and green

  QColor of(MemoryCategory category) const;
  /// A band of gui/data/memory_bands.h: a category's, or that of what is unknown.
  QColor of_band(std::size_t band) const;
  QColor of(SpanClass span_class) const;
  /// Compute by its phase, collectives by their kind, copies.
  QColor of(OperationKind kind, Phase phase) const;
  /// Diagonal lines, to be laid over a fill: exposed communication.
  QBrush hatch(const QColor& colour) const;
  /// Black or white, whichever can be read on it.
  QColor text_on(const QColor& fill) const;
};

const Theme& light_theme();
const Theme& dark_theme();
/// By how light the widget's window is.
const Theme& theme_of(const QWidget& widget);

/// Fusion style with a palette of ours; the desktop's own appearance is not touched.
void set_appearance(QApplication& application, Appearance appearance);
/// As the desktop had it when the application started.
Appearance system_appearance();

}  // namespace shardscope::gui
