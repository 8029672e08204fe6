// A page that needs no other file: pictures and texts under headings. Each picture is zoomed by the
// wheel and moved by the mouse.
#pragma once

#include <string>
#include <vector>

namespace shardscope {

struct Section {
  std::string heading, text;
  std::vector<std::string> figures = {};  ///< SVG documents, shown above the text
};

/// `figure`: SVG documents, or "". Texts keep their lines and columns.
std::string html_page(const std::string& title, const std::string& figure,
                      const std::vector<Section>& sections);

}  // namespace shardscope
