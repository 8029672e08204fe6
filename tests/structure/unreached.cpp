#include "tests/structure/unreached.h"

#include <map>
#include <set>

namespace shardscope::structure {
namespace {

/// A header and its source are one part.
struct Part {
  bool has_header = false;
  bool has_source = false;
  std::vector<std::string> includes;  ///< stems
};

std::string stem_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

std::map<std::string, Part> parts_of(const std::vector<SourceFile>& files) {
  std::map<std::string, Part> parts;
  for (const SourceFile& file : files) {
    if (file.room() == "tests") continue;
    Part& part = parts[file.stem()];
    (file.is_header() ? part.has_header : part.has_source) = true;
    for (const Include& include : file.includes)
      if (include.quoted) part.includes.push_back(stem_of(include.target));
  }
  return parts;
}

}  // namespace

std::vector<std::string> unreached_headers(const std::vector<SourceFile>& files) {
  const std::map<std::string, Part> parts = parts_of(files);
  std::vector<std::string> waiting;
  for (const auto& [stem, part] : parts)
    if (part.has_source && !part.has_header) waiting.push_back(stem);
  std::set<std::string> reached;
  while (!waiting.empty()) {
    const std::string stem = waiting.back();
    waiting.pop_back();
    const auto part = parts.find(stem);
    if (part == parts.end() || !reached.insert(stem).second) continue;
    for (const std::string& include : part->second.includes) waiting.push_back(include);
  }
  std::vector<std::string> unreached;
  for (const auto& [stem, part] : parts)
    if (part.has_header && !reached.contains(stem)) unreached.push_back(stem + ".h");
  return unreached;
}

}  // namespace shardscope::structure
