#include "sim/kernels/minimum_cut.h"

#include <gtest/gtest.h>

#include <random>

namespace shardscope {
namespace {

TEST(MinimumCut, IsTheLightestNodeOfAChain) {
  MinimumCut cut;
  const std::uint32_t a = cut.add_node(3), b = cut.add_node(5), c = cut.add_node(2);
  cut.add_edge(a, b);
  cut.add_edge(b, c);
  cut.add_source(a);
  cut.add_sink(c);
  cut.solve();
  EXPECT_FALSE(cut.is_cut(a));
  EXPECT_FALSE(cut.is_cut(b));
  EXPECT_TRUE(cut.is_cut(c));
}

TEST(MinimumCut, OfEqualWeightsIsTheOneNearestToTheSources) {
  MinimumCut cut;
  const std::uint32_t a = cut.add_node(2), b = cut.add_node(2);
  cut.add_edge(a, b);
  cut.add_source(a);
  cut.add_sink(b);
  cut.solve();
  EXPECT_TRUE(cut.is_cut(a));
  EXPECT_FALSE(cut.is_cut(b));
}

TEST(MinimumCut, TakesWhatTwoSinksShare) {
  // a (3) feeds b (2) and c (2), which both are wanted: a alone is lighter than both.
  MinimumCut cut;
  const std::uint32_t a = cut.add_node(3), b = cut.add_node(2), c = cut.add_node(2);
  cut.add_edge(a, b);
  cut.add_edge(a, c);
  cut.add_source(a);
  cut.add_sink(b);
  cut.add_sink(c);
  cut.solve();
  EXPECT_TRUE(cut.is_cut(a));
  EXPECT_FALSE(cut.is_cut(b) || cut.is_cut(c));
}

TEST(MinimumCut, IsEmptyWithoutAWay) {
  MinimumCut cut;
  const std::uint32_t a = cut.add_node(1), b = cut.add_node(1);
  cut.add_source(a);
  cut.add_sink(b);
  cut.solve();
  EXPECT_FALSE(cut.is_cut(a) || cut.is_cut(b));
}

/// A graph whose edges go from lower to higher numbers.
struct Graph {
  std::vector<std::int64_t> weights;
  std::vector<std::uint32_t> next;  // by node: a bit for each that it feeds
  std::uint32_t sources = 0, sinks = 0;

  /// Whether removing the nodes of `removed` parts sources from sinks.
  bool parts(std::uint32_t removed) const {
    std::uint32_t reached = sources & ~removed;
    for (std::uint32_t node = 0; node < weights.size(); ++node)
      if (reached >> node & 1) reached |= next[node] & ~removed;
    return (reached & sinks) == 0;
  }
  std::int64_t weight(std::uint32_t nodes) const {
    std::int64_t sum = 0;
    for (std::uint32_t node = 0; node < weights.size(); ++node)
      if (nodes >> node & 1) sum += weights[node];
    return sum;
  }
};

Graph random_graph(std::mt19937& random) {
  constexpr std::uint32_t nodes = 9;
  Graph graph{.weights = std::vector<std::int64_t>(nodes),
              .next = std::vector<std::uint32_t>(nodes)};
  for (std::uint32_t a = 0; a < nodes; ++a) {
    graph.weights[a] = static_cast<std::int64_t>(random() % 6);
    for (std::uint32_t b = a + 1; b < nodes; ++b)
      if (random() % 3 == 0) graph.next[a] |= 1U << b;
  }
  graph.sources = static_cast<std::uint32_t>(random()) & 0b11U;
  graph.sinks = static_cast<std::uint32_t>(random()) & 0b111100000U;
  return graph;
}

TEST(MinimumCut, IsAsLightAsTheBestOfAllSets) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const Graph graph = random_graph(random);
    MinimumCut cut;
    for (const std::int64_t weight : graph.weights) cut.add_node(weight);
    for (std::uint32_t a = 0; a < graph.weights.size(); ++a) {
      for (std::uint32_t b = 0; b < graph.weights.size(); ++b)
        if (graph.next[a] >> b & 1) cut.add_edge(a, b);
      if (graph.sources >> a & 1) cut.add_source(a);
      if (graph.sinks >> a & 1) cut.add_sink(a);
    }
    cut.solve();
    std::uint32_t found = 0;
    for (std::uint32_t a = 0; a < graph.weights.size(); ++a)
      if (cut.is_cut(a)) found |= 1U << a;
    std::int64_t best = graph.weight((1U << graph.weights.size()) - 1);
    for (std::uint32_t set = 0; set < 1U << graph.weights.size(); ++set)
      if (graph.parts(set)) best = std::min(best, graph.weight(set));
    EXPECT_TRUE(graph.parts(found)) << "round " << round;
    EXPECT_EQ(graph.weight(found), best) << "round " << round;
  }
}

}  // namespace
}  // namespace shardscope
