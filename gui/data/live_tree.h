// A live set from category down to unit and tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gui/data/live_set.h"

namespace shardscope::gui {

/// Nodes in the order of their rows, the root first; children stand side by side.
struct LiveTree {
  static constexpr std::uint32_t none = UINT32_MAX;

  struct Node {
    std::string text;
    Bytes bytes;
    std::uint32_t parent = none;
    std::uint32_t row = 0;  ///< within the parent
    std::uint32_t first_child = 0, child_count = 0;
    std::uint32_t buffer = none;  ///< index into the set's buffers; of tensors
    std::size_t band = 0;         ///< of all but the root
    bool is_unlisted = false;
  };
  std::vector<Node> nodes;
};

/// Categories, units and tensors by falling size. `wanted`: only buffers with that in their name,
/// unit, category or operations, whatever the case; "": all, and what is unlisted too, so that the
/// root and each category have the level's bytes.
LiveTree live_tree(const LiveSet& set, std::string_view wanted = {});

}  // namespace shardscope::gui
