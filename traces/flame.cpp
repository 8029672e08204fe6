#include "traces/flame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "traces/held_sum.h"

namespace shardscope {
namespace {

void add_to(std::int64_t& sum, std::int64_t amount) { sum = held_sum(sum, amount); }

/// A tree that grows path by path, in no order of its own.
struct GrowingNode {
  std::string name;
  FlameNode::Amounts own{}, whole{};
  FlameLook look;
  std::map<std::string, std::uint32_t, std::less<>> children;
};

class GrowingTree {
 public:
  void add(std::span<const FlameStack> stacks, std::size_t run) {
    for (const FlameStack& stack : stacks) {
      if (stack.amount <= 0) continue;
      std::uint32_t at = 0;
      add_to(nodes_[at].whole[run], stack.amount);
      for (const std::string& frame : stack.frames) {
        at = child(at, frame);
        add_to(nodes_[at].whole[run], stack.amount);
      }
      add_to(nodes_[at].own[run], stack.amount);
      nodes_[at].look = stack.look;
    }
  }

  FlameTree take() {
    FlameTree tree;
    tree.nodes.push_back({.own = nodes_[0].own, .whole = nodes_[0].whole});
    std::vector<std::uint32_t> from{0};  // by node of the tree, the growing one
    for (std::uint32_t at = 0; at < from.size(); ++at) {
      const std::vector<std::uint32_t> children = children_of(from[at]);
      tree.nodes[at].first_child = static_cast<std::uint32_t>(tree.nodes.size());
      tree.nodes[at].child_count = static_cast<std::uint32_t>(children.size());
      for (const std::uint32_t child : children) {
        tree.nodes.push_back({.name = std::move(nodes_[child].name),
                              .own = nodes_[child].own,
                              .whole = nodes_[child].whole,
                              .parent = at,
                              .depth = tree.nodes[at].depth + 1,
                              .look = nodes_[child].look});
        from.push_back(child);
      }
    }
    // Children stand behind their parents, the largest first.
    for (std::size_t at = tree.nodes.size(); at-- > 0;) {
      FlameNode& node = tree.nodes[at];
      if (node.own == FlameNode::Amounts{} && node.child_count > 0)
        node.look = tree.nodes[node.first_child].look;
    }
    return tree;
  }

 private:
  std::uint32_t child(std::uint32_t parent, const std::string& name) {
    const auto known = nodes_[parent].children.find(name);
    if (known != nodes_[parent].children.end()) return known->second;
    const auto id = static_cast<std::uint32_t>(nodes_.size());
    nodes_[parent].children.emplace(name, id);
    nodes_.push_back({.name = name});
    return id;
  }

  std::vector<std::uint32_t> children_of(std::uint32_t parent) const {
    std::vector<std::uint32_t> children;
    for (const auto& [name, child] : nodes_[parent].children) children.push_back(child);
    // Equal ones stay in the order in which they came first: h.2 before h.10.
    std::sort(children.begin(), children.end());
    const auto largest = [&](std::uint32_t child) {
      return *std::max_element(nodes_[child].whole.begin(), nodes_[child].whole.end());
    };
    std::stable_sort(children.begin(), children.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return largest(a) > largest(b); });
    return children;
  }

  std::vector<GrowingNode> nodes_{1};
};

std::string folded_frame(std::string_view name) {
  std::string text(name);
  for (char& letter : text) {
    if (letter == ';') letter = ':';
    if (std::iscntrl(static_cast<unsigned char>(letter)) != 0) letter = ' ';
  }
  return text;
}

/// The unit in the name as whole modules: "h.1" is not in "h.10 linear".
std::size_t find_unit(std::string_view name, std::string_view unit) {
  const auto is_part = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
  };
  for (std::size_t at = name.find(unit); at != std::string_view::npos;
       at = name.find(unit, at + 1)) {
    const std::size_t end = at + unit.size();
    const bool begins = at == 0 || !is_part(name[at - 1]);
    if (begins && (end == name.size() || !is_part(name[end]))) return at;
  }
  return std::string_view::npos;
}

std::string_view trimmed(std::string_view text, std::string_view of) {
  const std::size_t begin = text.find_first_not_of(of);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(of) - begin + 1);
}

}  // namespace

std::string FlameTree::path_of(std::uint32_t node) const {
  std::string path;
  for (; node != 0; node = nodes[node].parent)
    path = path.empty() ? nodes[node].name : nodes[node].name + " / " + path;
  return path;
}

bool FlameTree::is_within(std::uint32_t node, std::uint32_t other) const {
  while (node != other && node != 0) node = nodes[node].parent;
  return node == other;
}

FlameTree flame_tree(std::span<const FlameStack> first, std::span<const FlameStack> second,
                     std::span<const FlameStack> third) {
  GrowingTree tree;
  tree.add(first, 0);
  tree.add(second, 1);
  tree.add(third, 2);
  return tree.take();
}

std::string folded_text(std::span<const FlameStack> stacks) {
  std::map<std::string, std::int64_t> amounts;
  for (const FlameStack& stack : stacks) {
    if (stack.amount <= 0 || stack.frames.empty()) continue;
    std::string line;
    for (const std::string& frame : stack.frames)
      line += (line.empty() ? "" : ";") + folded_frame(frame);
    add_to(amounts[line], stack.amount);
  }
  std::string text;
  for (const auto& [line, amount] : amounts) text += fmt::format("{} {}\n", line, amount);
  return text;
}

std::vector<std::string> module_frames(std::string_view module) {
  std::vector<std::string> frames;
  if (module.find(", ") != std::string_view::npos) return {std::string(module)};
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    const std::string_view part = module.substr(begin, end - begin);
    const bool is_number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char letter) {
          return std::isdigit(letter) != 0;
        });
    if (is_number && !frames.empty())
      frames.back() += "." + std::string(part);
    else if (!part.empty())
      frames.emplace_back(part);
    begin = end + 1;
  }
  return frames;
}

ModuleName split_module(std::string_view name, std::string_view unit) {
  const std::size_t at = unit.empty() ? std::string_view::npos : find_unit(name, unit);
  if (at != std::string_view::npos) {
    const std::size_t end = std::min(name.find_first_of(" :", at + unit.size()), name.size());
    const std::string_view before = trimmed(name.substr(0, at), " :.");
    const std::string_view behind = trimmed(name.substr(end), " :");
    std::string rest(before);
    if (!before.empty() && !behind.empty()) rest += ' ';
    return {.module = std::string(name.substr(at, end - at)), .rest = rest + std::string(behind)};
  }
  const std::size_t space = name.find(' ');
  // "lm_head linear_forward": a module of the root.
  if (unit.empty() && space != std::string_view::npos && name.find(' ', space + 1) == name.npos)
    return {.module = std::string(name.substr(0, space)),
            .rest = std::string(name.substr(space + 1))};
  return {.module = std::string(unit), .rest = std::string(name)};
}

}  // namespace shardscope
