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

}  // namespace

std::string html_page(const std::string& title, const std::string& figure,
                      const std::vector<Section>& sections) {
  std::string body;
  for (const Section& section : sections)
    body += fmt::format("<h2>{}</h2>\n<pre>{}</pre>\n", escaped(section.heading),
                        escaped(section.text));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<style>body{{font-family:sans-serif;margin:2em;color:#222}}pre{{overflow-x:auto}}"
      "svg{{max-width:100%;height:auto}}</style></head>\n<body><h1>{0}</h1>\n{1}{2}</body></"
      "html>\n",
      escaped(title), figure, body);
}

}  // namespace shardscope
