// A page that needs no other file: a picture and texts under headings.
#pragma once

#include <string>
#include <vector>

namespace shardscope {

struct Section {
  std::string heading, text;
};

/// `figure`: an SVG document, or "". Texts keep their lines and columns.
std::string html_page(const std::string& title, const std::string& figure,
                      const std::vector<Section>& sections);

}  // namespace shardscope
