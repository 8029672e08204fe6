// A small writer of SVG pictures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardscope {

struct Point {
  double x = 0;
  double y = 0;
};

struct Rectangle {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// How a shape is painted; empty colours paint nothing.
struct Brush {
  std::string fill;
  std::string stroke;
  double stroke_width = 1;
  double opacity = 1;
  std::string dash;  ///< "4 3"
};

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 13;
  std::string colour = "#222222";
  Anchor anchor = Anchor::start;
  bool is_bold = false;
  bool has_halo = false;  ///< white behind the letters, over lines
};

/// Collects shapes; coordinates are pixels from the top left.
class Svg {
 public:
  Svg(double width, double height);

  void rectangle(Rectangle at, const Brush& paint, double radius = 0,
                 std::string_view tooltip = {});
  void line(Point from, Point to, const Brush& paint);
  void polyline(const std::vector<Point>& points, const Brush& paint);
  void polygon(const std::vector<Point>& points, const Brush& paint);
  void circle(Point centre, double radius, const Brush& paint);
  void text(Point baseline, std::string_view content, const TextStyle& style = {});
  /// Diagonal lines, to be used as a fill: "url(#<name>)".
  void hatch(std::string_view name, std::string_view colour);

  std::string str() const;  ///< the whole document

 private:
  double width_;
  double height_;
  std::string body_;
};

/// About how wide the text is drawn.
double text_width(std::string_view text, double size);

/// `text`, cut with an ellipsis so that it is at most `width` wide; empty where not even two
/// letters fit.
std::string fitted(std::string_view text, double size, double width);

}  // namespace shardscope
