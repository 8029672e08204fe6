#include "gui/base/theme.h"

#include <QApplication>
#include <QStyleFactory>
#include <QWidget>
#include <string_view>

#include "traces/palette.h"

namespace shardscope::gui {
namespace {

QColor colour(std::string_view hex) {
  return QColor(QLatin1String(hex.data(), static_cast<int>(hex.size())));
}

/// Rec. 709 luma of 0 to 1.
double lightness(const QColor& c) {
  return 0.2126 * c.redF() + 0.7152 * c.greenF() + 0.0722 * c.blueF();
}

/// On a dark ground the palette's blue is hard to see.
QColor seen_on(Appearance appearance, const QColor& c) {
  return appearance == Appearance::dark && lightness(c) < 0.4 ? c.lighter(150) : c;
}

Theme make_light() {
  return {.appearance = Appearance::light,
          .background = QColor(0xffffff),
          .lane = QColor(0xf5f6f8),
          .grid = QColor(0xe2e5e9),
          .ink = QColor(0x1c2126),
          .faint_ink = QColor(0x5d6670),
          .accent = colour(palette::blue),
          .selection = QColor(0, 114, 178, 40),
          .exposed = colour(palette::vermilion),
          .idle = QColor(0xd5dade),
          .more = colour(palette::orange),
          .less = colour(palette::blue)};
}

Theme make_dark() {
  return {.appearance = Appearance::dark,
          .background = QColor(0x1b1e22),
          .lane = QColor(0x22262b),
          .grid = QColor(0x353b42),
          .ink = QColor(0xe8eaed),
          .faint_ink = QColor(0xa2abb5),
          .accent = colour(palette::sky),
          .selection = QColor(86, 180, 233, 60),
          .exposed = QColor(0xf07a2a),
          .idle = QColor(0x454c54),
          .more = colour(palette::orange),
          .less = colour(palette::sky)};
}

QPalette palette_of(const Theme& theme) {
  QPalette palette;
  const bool is_dark = theme.appearance == Appearance::dark;
  const QColor window = is_dark ? QColor(0x24282d) : QColor(0xf2f3f5);
  palette.setColor(QPalette::Window, window);
  palette.setColor(QPalette::Base, theme.background);
  palette.setColor(QPalette::AlternateBase, theme.lane);
  palette.setColor(QPalette::Button, is_dark ? QColor(0x30353b) : QColor(0xe9ebee));
  palette.setColor(QPalette::ToolTipBase, is_dark ? QColor(0x30353b) : QColor(0xffffff));
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText,
                          QPalette::ToolTipText, QPalette::BrightText})
    palette.setColor(role, theme.ink);
  palette.setColor(QPalette::PlaceholderText, theme.faint_ink);
  palette.setColor(QPalette::Link, theme.accent);
  palette.setColor(QPalette::Highlight, theme.accent);
  palette.setColor(QPalette::HighlightedText, theme.text_on(theme.accent));
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
    palette.setColor(QPalette::Disabled, role, theme.faint_ink);
  return palette;
}

}  // namespace

QColor Theme::of(MemoryCategory category) const {
  return seen_on(appearance, colour(palette::of(category)));
}

QColor Theme::of_band(std::size_t band) const {
  if (band < memory_category_count) return of(memory_categories[band]);
  return appearance == Appearance::dark ? QColor(0x8a8f96) : QColor(0xbbbbbb);
}

QColor Theme::of(SpanClass span_class) const {
  switch (span_class) {
    case SpanClass::compute:
      return colour(palette::sky);
    case SpanClass::communication:
      return exposed;
    case SpanClass::copy:
      return colour(palette::yellow);
    case SpanClass::host:
      return colour(palette::grey);
    case SpanClass::annotation:
      return idle;
  }
  return ink;
}

QColor Theme::of(OperationKind kind, Phase phase) const {
  return seen_on(appearance, colour(palette::of(kind, phase)));
}

QBrush Theme::hatch(const QColor& lines) const { return QBrush(lines, Qt::BDiagPattern); }

QColor Theme::text_on(const QColor& fill) const {
  return lightness(fill) > 0.5 ? QColor(0x111111) : QColor(0xffffff);
}

const Theme& light_theme() {
  static const Theme theme = make_light();
  return theme;
}

const Theme& dark_theme() {
  static const Theme theme = make_dark();
  return theme;
}

const Theme& theme_of(const QWidget& widget) {
  return lightness(widget.palette().color(QPalette::Window)) > 0.5 ? light_theme() : dark_theme();
}

void set_appearance(QApplication& application, Appearance appearance) {
  system_appearance();  // remembered before it is painted over
  application.setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  application.setPalette(
      palette_of(appearance == Appearance::light ? light_theme() : dark_theme()));
}

Appearance system_appearance() {
  static const Appearance at_first =
      lightness(QApplication::palette().color(QPalette::Window)) > 0.5 ? Appearance::light
                                                                       : Appearance::dark;
  return at_first;
}

}  // namespace shardscope::gui
