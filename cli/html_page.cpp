#include "cli/html_page.h"

#include <fmt/format.h>

#include <string_view>

#include "core/base/utf8.h"

namespace shardscope {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text, "\n")) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

/// Wheel: zooms where the mouse is. Drag: moves. Double click: all of it again.
constexpr std::string_view script = R"(<script>
for (const svg of document.querySelectorAll("svg")) {
  const whole = svg.viewBox.baseVal, all = [whole.x, whole.y, whole.width, whole.height];
  let box = all, from = null;
  const show = next => { box = next; svg.setAttribute("viewBox", box.join(" ")); };
  const at = event => {
    const place = svg.getBoundingClientRect();
    return [(event.clientX - place.left) / place.width, (event.clientY - place.top) / place.height];
  };
  svg.addEventListener("wheel", event => {
    event.preventDefault();
    const [x, y] = at(event), width = Math.min(all[2], box[2] * (event.deltaY < 0 ? 0.8 : 1.25));
    const height = width * all[3] / all[2];
    show([box[0] + x * (box[2] - width), box[1] + y * (box[3] - height), width, height]);
  }, {passive: false});
  svg.addEventListener("pointerdown", event => { from = [at(event), box]; svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointermove", event => {
    if (!from) return;
    const [x, y] = at(event), [[x0, y0], start] = from;
    show([start[0] - (x - x0) * start[2], start[1] - (y - y0) * start[3], start[2], start[3]]);
  });
  svg.addEventListener("pointerup", () => { from = null; });
  svg.addEventListener("dblclick", () => show(all));
}
</script>
)";

std::string section_html(const Section& section) {
  return fmt::format("<h2>{}</h2>\n{}\n<pre>{}</pre>\n", escaped(section.heading),
                     fmt::join(section.figures, "\n"), escaped(section.text));
}

}  // namespace

std::string html_page(const std::string& title, const std::string& figure,
                      const std::vector<Section>& sections) {
  std::string body;
  for (const Section& section : sections) body += section_html(section);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<style>body{{font-family:sans-serif;margin:2em;color:#222}}pre{{overflow-x:auto}}"
      "svg{{max-width:100%;height:auto;touch-action:none}}</style></head>\n<body><h1>{0}</h1>\n"
      "{1}{2}{3}</body></html>\n",
      escaped(title), figure, body, script);
}

}  // namespace shardscope
