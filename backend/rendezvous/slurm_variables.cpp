#include "backend/rendezvous/slurm_variables.h"

#include "backend/base/parse_integer.h"

namespace shardscope {

std::optional<int> slurm_tasks_on_node(std::string_view tasks_per_node, int node) {
  while (!tasks_per_node.empty()) {
    const std::string_view item = tasks_per_node.substr(0, tasks_per_node.find(','));
    tasks_per_node.remove_prefix(item.size());
    if (!tasks_per_node.empty()) tasks_per_node.remove_prefix(1);

    const std::size_t parenthesis = item.find("(x");
    const auto tasks = parse_integer(item.substr(0, parenthesis));
    std::optional<int> repeats = 1;
    if (parenthesis != std::string_view::npos) {
      if (item.back() != ')') return std::nullopt;
      repeats = parse_integer(item.substr(parenthesis + 2, item.size() - parenthesis - 3));
    }
    if (!tasks || !repeats) return std::nullopt;
    if (node < *repeats) return tasks;
    node -= *repeats;
  }
  return std::nullopt;
}

std::optional<std::string> slurm_first_host(std::string_view node_list) {
  const std::size_t end = node_list.find_first_of(",[");
  std::string host(node_list.substr(0, end));
  if (end != std::string_view::npos && node_list[end] == '[') {
    const std::string_view range = node_list.substr(end + 1);
    const std::string_view first = range.substr(0, range.find_first_of(",-]"));
    if (first.empty() || first.size() == range.size()) return std::nullopt;
    host += first;
  }
  if (host.empty()) return std::nullopt;
  return host;
}

}  // namespace shardscope
