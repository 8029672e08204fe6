#include "tests/structure/include_circles.h"

#include <algorithm>
#include <map>
#include <set>

namespace shardscope::structure {
namespace {

using Graph = std::map<std::string, std::set<std::string>>;

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// Depth-first search that notes the path back to a node it is still inside of.
class CircleSearch {
 public:
  explicit CircleSearch(const Graph& graph) : graph_(graph) {}

  std::vector<std::string> circles() {
    for (const auto& [node, targets] : graph_) visit(node);
    return circles_;
  }

 private:
  void visit(const std::string& node) {
    if (done_.contains(node)) return;
    if (const auto open = std::find(path_.begin(), path_.end(), node); open != path_.end()) {
      note(open, node);
      return;
    }
    path_.push_back(node);
    if (const auto found = graph_.find(node); found != graph_.end()) {
      for (const std::string& target : found->second) visit(target);
    }
    path_.pop_back();
    done_.insert(node);
  }

  void note(std::vector<std::string>::const_iterator begin, const std::string& end) {
    std::string text;
    for (; begin != path_.end(); ++begin) text += *begin + " -> ";
    circles_.push_back(text + end);
  }

  const Graph& graph_;
  std::vector<std::string> path_;
  std::set<std::string> done_;
  std::vector<std::string> circles_;
};

}  // namespace

std::vector<std::string> header_circles(const std::vector<SourceFile>& files) {
  Graph graph;
  for (const SourceFile& file : files) {
    if (!file.is_header()) continue;
    for (const Include& include : file.includes) {
      if (include.quoted) graph[file.path].insert(include.target);
    }
  }
  return CircleSearch(graph).circles();
}

std::vector<std::string> folder_circles(const std::vector<SourceFile>& files) {
  Graph graph;
  for (const SourceFile& file : files) {
    if (file.room() == "tests") continue;
    for (const Include& include : file.includes) {
      const std::string folder = folder_of(include.target);
      if (include.quoted && folder != folder_of(file.path))
        graph[folder_of(file.path)].insert(folder);
    }
  }
  return CircleSearch(graph).circles();
}

}  // namespace shardscope::structure
