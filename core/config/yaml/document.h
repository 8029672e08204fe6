// The nodes of a YAML document, before they become values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/refusal.h"

namespace shardscope::yaml {

enum class NodeKind : std::uint8_t { scalar, sequence, mapping };

using NodeId = std::uint32_t;

struct Node {
  struct Pair {
    NodeId key = 0;
    NodeId value = 0;
    bool merged = false;  ///< came from a "<<"
  };
  NodeKind kind = NodeKind::scalar;
  std::string tag;               ///< resolved: "tag:yaml.org,2002:int"
  std::string text;              ///< of a scalar
  std::vector<NodeId> elements;  ///< of a sequence
  std::vector<Pair> pairs;       ///< of a mapping
  int line = 0;                  ///< 1-based
  bool aliased = false;          ///< an alias names it
};

/// One document. An alias is the node of its anchor again, so that nodes form a graph.
struct Document {
  std::vector<Node> nodes;
  NodeId root = 0;
  bool empty = true;  ///< the file holds no document

  Node& at(NodeId id) { return nodes[id]; }
  const Node& at(NodeId id) const { return nodes[id]; }
};

inline constexpr std::string_view standard_tag = "tag:yaml.org,2002:";

/// The single document of a file. Raises ScannerError, ParserError or ComposerError where PyYAML
/// 6.0.3 does; nesting deeper than 200 is RecursionError.
/// Source: PyYAML 6.0.3 parser.py, composer.py.
Document compose(std::string_view bytes, std::string_view file);

}  // namespace shardscope::yaml
