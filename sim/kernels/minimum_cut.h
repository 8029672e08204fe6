// The cheapest nodes that part sources from sinks.
#pragma once

#include <cstdint>
#include <vector>

namespace shardscope {

/// A directed graph whose nodes have weights. `solve` finds a set of nodes of the least weight in
/// all that every way from a source to a sink passes; of several, the one nearest to the sources.
/// Example: source a (3), sink c (2), edges a -> b (5) -> c: the cut is c.
class MinimumCut {
 public:
  /// `weight` is at least 0. Returns its number, from 0.
  std::uint32_t add_node(std::int64_t weight);
  void add_edge(std::uint32_t from, std::uint32_t to);
  void add_source(std::uint32_t node);
  void add_sink(std::uint32_t node);
  /// Once, when all is added. Augments along shortest ways, sink by sink (Ford and Fulkerson): the
  /// time grows with the sinks times what is connected to each.
  void solve();
  bool is_cut(std::uint32_t node) const { return cut_[node]; }

 private:
  struct Arc {
    std::uint32_t to = 0;
    std::int64_t left = 0;  ///< capacity that is not used
  };
  static constexpr std::uint32_t the_source = 0;
  static std::uint32_t way_in(std::uint32_t node) { return 1 + 2 * node; }
  static std::uint32_t way_out(std::uint32_t node) { return 2 + 2 * node; }

  void add_arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity);
  /// Whether there was a way from a source to the vertex.
  bool augment(std::uint32_t to);
  bool find_way(std::uint32_t to);

  std::vector<std::vector<std::uint32_t>> arcs_of_{{}};  // by vertex
  std::vector<Arc> arcs_;                                // each followed by the one back
  std::vector<std::uint32_t> sinks_;                     // nodes
  std::vector<bool> cut_;                                // by node
  std::vector<std::uint32_t> next_;  // by vertex: the arc of the way that was found
  std::vector<std::uint32_t> seen_;  // by vertex: the search that came there
  std::uint32_t search_ = 0;
};

}  // namespace shardscope
