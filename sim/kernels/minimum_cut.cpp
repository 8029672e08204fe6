#include "sim/kernels/minimum_cut.h"

#include <algorithm>
#include <limits>

namespace shardscope {
namespace {

constexpr std::int64_t unbounded = std::numeric_limits<std::int64_t>::max() / 4;

}  // namespace

std::uint32_t MinimumCut::add_node(std::int64_t weight) {
  const auto node = static_cast<std::uint32_t>(cut_.size());
  cut_.push_back(false);
  arcs_of_.resize(arcs_of_.size() + 2);
  add_arc(way_in(node), way_out(node), weight);
  return node;
}

void MinimumCut::add_edge(std::uint32_t from, std::uint32_t to) {
  add_arc(way_out(from), way_in(to), unbounded);
}

void MinimumCut::add_source(std::uint32_t node) { add_arc(the_source, way_in(node), unbounded); }

void MinimumCut::add_sink(std::uint32_t node) { sinks_.push_back(node); }

void MinimumCut::add_arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity) {
  arcs_of_[from].push_back(static_cast<std::uint32_t>(arcs_.size()));
  arcs_.push_back({to, capacity});
  arcs_of_[to].push_back(static_cast<std::uint32_t>(arcs_.size()));
  arcs_.push_back({from, 0});
}

/// Backwards from the vertex, so that nothing is visited that is not connected to it.
bool MinimumCut::find_way(std::uint32_t to) {
  ++search_;
  seen_[to] = search_;
  std::vector<std::uint32_t> line{to};
  for (std::size_t at = 0; at < line.size(); ++at)
    for (const std::uint32_t back : arcs_of_[line[at]]) {
      const std::uint32_t before = arcs_[back].to;
      if (arcs_[back ^ 1].left == 0 || seen_[before] == search_) continue;
      next_[before] = back ^ 1;
      if (before == the_source) return true;
      seen_[before] = search_;
      line.push_back(before);
    }
  return false;
}

bool MinimumCut::augment(std::uint32_t to) {
  if (!find_way(to)) return false;
  std::int64_t amount = unbounded;
  for (std::uint32_t at = the_source; at != to; at = arcs_[next_[at]].to)
    amount = std::min(amount, arcs_[next_[at]].left);
  for (std::uint32_t at = the_source; at != to; at = arcs_[next_[at]].to) {
    arcs_[next_[at]].left -= amount;
    arcs_[next_[at] ^ 1].left += amount;
  }
  return true;
}

void MinimumCut::solve() {
  next_.resize(arcs_of_.size());
  seen_.resize(arcs_of_.size());
  for (const std::uint32_t sink : sinks_)
    while (augment(way_out(sink))) {
    }
  std::vector<bool> reached(arcs_of_.size());
  std::vector<std::uint32_t> line{the_source};
  for (std::size_t at = 0; at < line.size(); ++at)
    for (const std::uint32_t arc : arcs_of_[line[at]]) {
      if (arcs_[arc].left == 0 || reached[arcs_[arc].to]) continue;
      reached[arcs_[arc].to] = true;
      line.push_back(arcs_[arc].to);
    }
  for (std::uint32_t node = 0; node < cut_.size(); ++node)
    cut_[node] = reached[way_in(node)] && !reached[way_out(node)];
}

}  // namespace shardscope
