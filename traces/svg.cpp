#include "traces/svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/utf8.h"

namespace shardscope {
namespace {

constexpr double letter_width = 0.58;  // of the font size, a mean over DejaVu Sans
constexpr std::string_view font = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(text, "\n\t")) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // XML 1.0 has no control characters, not even escaped ones.
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

/// At most two decimals, so that files stay small.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string paint_attributes(const Brush& paint) {
  std::string result = fmt::format(" fill=\"{}\"", paint.fill.empty() ? "none" : paint.fill);
  if (!paint.stroke.empty()) {
    result +=
        fmt::format(" stroke=\"{}\" stroke-width=\"{}\"", paint.stroke, number(paint.stroke_width));
  }
  if (!paint.dash.empty()) result += fmt::format(" stroke-dasharray=\"{}\"", paint.dash);
  if (paint.opacity < 1) result += fmt::format(" opacity=\"{}\"", number(paint.opacity));
  return result;
}

std::string points_attribute(const std::vector<Point>& points) {
  std::string result;
  for (const Point& point : points) {
    result += fmt::format("{}{},{}", result.empty() ? "" : " ", number(point.x), number(point.y));
  }
  return result;
}

std::string_view name_of(Anchor anchor) {
  if (anchor == Anchor::middle) return "middle";
  return anchor == Anchor::end ? "end" : "start";
}

std::size_t letters(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text)
    count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // not a UTF-8 continuation
  return count;
}

}  // namespace

Svg::Svg(double width, double height) : width_(width), height_(height) {}

void Svg::rectangle(Rectangle at, const Brush& paint, double radius, std::string_view tooltip) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(at.x),
                       number(at.y), number(at.width), number(at.height));
  if (radius > 0) body_ += fmt::format(" rx=\"{}\"", number(radius));
  body_ += paint_attributes(paint);
  body_ += tooltip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escaped(tooltip));
}

void Svg::line(Point from, Point to, const Brush& paint) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", number(from.x),
                       number(from.y), number(to.x), number(to.y), paint_attributes(paint));
}

void Svg::polyline(const std::vector<Point>& points, const Brush& paint) {
  body_ += fmt::format("<polyline points=\"{}\" stroke-linejoin=\"round\"{}/>\n",
                       points_attribute(points), paint_attributes(paint));
}

void Svg::polygon(const std::vector<Point>& points, const Brush& paint) {
  body_ += fmt::format("<polygon points=\"{}\"{}/>\n", points_attribute(points),
                       paint_attributes(paint));
}

void Svg::circle(Point centre, double radius, const Brush& paint) {
  body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}/>\n", number(centre.x),
                       number(centre.y), number(radius), paint_attributes(paint));
}

void Svg::text(Point baseline, std::string_view content, const TextStyle& style) {
  body_ += fmt::format(
      "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\"{}{}>{}</text>\n",
      number(baseline.x), number(baseline.y), number(style.size), style.colour,
      name_of(style.anchor), style.is_bold ? " font-weight=\"bold\"" : "",
      style.has_halo ? " paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"3\"" : "",
      escaped(content));
}

void Svg::hatch(std::string_view name, std::string_view colour) {
  body_ += fmt::format(
      "<defs><pattern id=\"{}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\">"
      "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"{}\" "
      "stroke-width=\"2.4\"/></pattern></defs>\n",
      name, colour);
}

std::string Svg::str() const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"{2}\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      number(width_), number(height_), font, body_);
}

double text_width(std::string_view text, double size) {
  return static_cast<double>(letters(text)) * size * letter_width;
}

std::string fitted(std::string_view text, double size, double width) {
  if (text_width(text, size) <= width) return std::string(text);
  const auto room = static_cast<std::size_t>(std::max(0.0, width / (size * letter_width)));
  if (room < 3) return {};
  std::size_t bytes = 0;
  for (std::size_t shown = 0; bytes < text.size(); ++bytes) {
    const bool begins_letter = (static_cast<unsigned char>(text[bytes]) & 0xC0) != 0x80;
    if (begins_letter && ++shown == room) break;
  }
  return std::string(text.substr(0, bytes)) + "…";
}

}  // namespace shardscope
