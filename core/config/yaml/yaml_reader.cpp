#include "core/config/yaml/yaml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/refusal.h"
#include "core/base/utf8.h"
#include "core/config/yaml/document.h"
#include "core/config/yaml/resolver.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

using yaml::Node;
using yaml::NodeId;
using yaml::NodeKind;

constexpr std::size_t max_values = std::size_t{1} << 18;
constexpr std::size_t max_text = std::size_t{32} << 20;

/// Nodes to values. Source: PyYAML 6.0.3 constructor.py, SafeConstructor. Aliases become copies,
/// therefore what they may grow to is bounded, and a node inside itself is refused.
class Constructor {
 public:
  Constructor(yaml::Document document, std::string_view file)
      : document_(std::move(document)), file_(file), open_(document_.nodes.size(), false) {}

  ConfigValue construct() { return value(document_.root); }

 private:
  ConfigValue value(NodeId id) {
    const Node& node = document_.at(id);
    if (open_[id])
      throw Error({.where = where(node.line),
                   .what = "an alias stands inside its own anchor",
                   .way_out = "write the value out"});
    count(node);
    open_[id] = true;
    aliased_ += node.aliased ? 1 : 0;
    ConfigValue result = tagged(id);
    open_[id] = false;
    result.set_line(node.line);
    // What stands inside such a node is one object in all places as well.
    if (aliased_ > 0 && (result.is_list() || result.is_dict())) result.set_shared_node(id + 1);
    aliased_ -= node.aliased ? 1 : 0;
    return result;
  }

  void count(const Node& node) {
    text_ += node.text.size();
    if (++values_ > max_values || text_ > max_text)
      throw Error(
          {.where = where(node.line),
           .what = fmt::format("more than {} values or {} MiB of text with aliases followed",
                               max_values, max_text >> 20),
           .way_out = "use fewer aliases"});
  }

  std::string where(int line) const {
    const std::string path = shown(fmt::format("{}", fmt::join(path_, ".")), 120);
    return fmt::format("{}:{}{}", file_, line, path.empty() ? "" : ": " + path);
  }
  Refusal error(const Node& node, std::string what) const {
    return {"ConstructorError",
            {.where = where(node.line), .what = std::move(what), .way_out = {}}};
  }

  ConfigValue tagged(NodeId id) {
    const Node& node = document_.at(id);
    const bool standard = node.tag.starts_with(yaml::standard_tag);
    const std::string tag = standard ? node.tag.substr(yaml::standard_tag.size()) : std::string();
    if (tag == "map") return mapping(id);
    if (tag == "seq") return sequence(id);
    if (tag == "set") return set_of(mapping(id));
    if (tag == "omap" || tag == "pairs") return pairs(id);
    for (const char* known : {"null", "bool", "int", "float", "timestamp", "binary", "str"})
      if (tag == known) return scalar(tag, id);
    throw error(node, fmt::format("no value can be made of the tag {}", python_quoted(node.tag)));
  }

  const std::string& scalar_text(NodeId id) const {
    const Node& node = document_.at(id);
    if (node.kind == NodeKind::scalar) return node.text;
    const std::string value_tag = fmt::format("{}value", yaml::standard_tag);
    for (const Node::Pair& pair : node.pairs)
      if (document_.at(pair.key).tag == value_tag &&
          document_.at(pair.value).kind == NodeKind::scalar)
        return document_.at(pair.value).text;
    throw error(node, "expected a scalar");
  }

  ConfigValue scalar(const std::string& tag, NodeId id) {
    const Node& node = document_.at(id);
    try {
      return yaml::scalar_value(tag, scalar_text(id));
    } catch (const Refusal& refusal) {
      if (!refusal.parts().where.empty()) throw;
      throw Refusal(refusal.exception(),
                    {.where = where(node.line), .what = refusal.parts().what, .way_out = {}});
    }
  }

  ConfigValue sequence(NodeId id) {
    const Node& node = document_.at(id);
    if (node.kind != NodeKind::sequence) throw error(node, "expected a list");
    ConfigValue::List result;
    for (std::size_t i = 0; i < node.elements.size(); ++i) {
      path_.push_back(fmt::format("{}", i));
      result.push_back(value(document_.at(id).elements[i]));
      path_.pop_back();
    }
    return ConfigValue(std::move(result));
  }

  ConfigValue mapping(NodeId id) {
    if (document_.at(id).kind != NodeKind::mapping)
      throw error(document_.at(id), "expected a mapping");
    flatten(id, 0);
    ConfigValue result = ConfigValue::dict();
    Places places;
    const std::vector<Node::Pair> own = document_.at(id).pairs;
    for (const Node::Pair& pair : own) {
      ConfigValue::Entry entry = key_of(pair.key);
      path_.push_back(entry.key);
      entry.value = value(pair.value);
      path_.pop_back();
      add(result, places, std::move(entry), pair.merged);
    }
    return result;
  }

  struct Place {
    std::size_t at = 0;
    bool merged = false;
  };
  using Places = std::map<std::pair<std::string, std::string>, Place>;

  ConfigValue::Entry key_of(NodeId id) {
    ConfigValue key = value(id);
    if (key.is_list() || key.is_dict() || key.type_name() == "set")
      throw error(document_.at(id), "a list or mapping cannot be a key");
    ConfigValue::Entry entry;
    entry.key = key.is_string() ? key.string() : key.repr();
    entry.key_type = key.type_name();
    entry.line = document_.at(id).line;
    return entry;
  }

  /// Python's dict has one entry for 1, 1.0 and True.
  static std::pair<std::string, std::string> identity(const ConfigValue::Entry& entry) {
    if (entry.key_type == "bool") return {"number", entry.key == "True" ? "1" : "0"};
    if (entry.key_type == "int") return {"number", entry.key};
    if (entry.key_type != "float") return {entry.key_type, entry.key};
    return {"number",
            entry.key.ends_with(".0") ? entry.key.substr(0, entry.key.size() - 2) : entry.key};
  }

  static void add(ConfigValue& dict, Places& places, ConfigValue::Entry entry, bool merged) {
    const auto [found, fresh] = places.emplace(identity(entry), Place{dict.size(), merged});
    if (fresh) return dict.entries().push_back(std::move(entry));
    ConfigValue::Entry& before = dict.entries()[found->second.at];
    // A key that overrides a merged one is what merging is for.
    if (!found->second.merged && !merged)
      dict.add_duplicate({.key = entry.key, .first_line = before.line, .line = entry.line});
    found->second.merged = merged;
    before.line = entry.line;
    before.value = std::move(entry.value);
  }

  bool has_tag(NodeId id, std::string_view name) const {
    const std::string& tag = document_.at(id).tag;
    return tag.starts_with(yaml::standard_tag) && tag.substr(yaml::standard_tag.size()) == name;
  }

  void flatten(NodeId id, int depth) {
    if (depth > 200)
      throw Refusal("RecursionError", {.where = where(document_.at(id).line),
                                       .what = "merges are nested too deeply",
                                       .way_out = {}});
    std::vector<Node::Pair> merged, own;
    std::vector<Node::Pair> pairs = std::exchange(document_.at(id).pairs, {});
    // What is left must be in place while a mapping that merges itself is looked at.
    for (const Node::Pair& pair : pairs)
      if (!has_tag(pair.key, "merge")) own.push_back(pair);
    document_.at(id).pairs = own;
    for (const Node::Pair& pair : pairs) {
      if (has_tag(pair.key, "merge"))
        merge(id, pair.value, merged, depth);
      else if (has_tag(pair.key, "value"))
        document_.at(pair.key).tag = std::string(yaml::standard_tag) + "str";
    }
    if (merged.empty()) return;
    for (Node::Pair& pair : merged) pair.merged = true;
    merged.insert(merged.end(), own.begin(), own.end());
    document_.at(id).pairs = std::move(merged);
  }

  void merge(NodeId into, NodeId from, std::vector<Node::Pair>& merged, int depth) {
    const auto take = [&](NodeId mapping) {
      flatten(mapping, depth + 1);
      const auto& pairs = document_.at(mapping).pairs;
      merged_pairs_ += pairs.size();
      if (merged_pairs_ > max_values)
        throw Error({.where = where(document_.at(into).line),
                     .what = fmt::format("merges add up to more than {} keys", max_values),
                     .way_out = "use fewer merges"});
      return pairs;
    };
    const Node& source = document_.at(from);
    if (source.kind == NodeKind::mapping) {
      const auto pairs = take(from);
      merged.insert(merged.end(), pairs.begin(), pairs.end());
      return;
    }
    if (source.kind != NodeKind::sequence)
      throw error(source, "expected a mapping or a list of mappings to merge");
    std::vector<std::vector<Node::Pair>> parts;
    for (const NodeId element : std::vector<NodeId>(source.elements)) {
      if (document_.at(element).kind != NodeKind::mapping)
        throw error(document_.at(element), "expected a mapping to merge");
      parts.push_back(take(element));
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      merged.insert(merged.end(), part->begin(), part->end());
  }

  /// The order of a Python set is that of its hashes; here it is that of the file.
  static ConfigValue set_of(const ConfigValue& dict) {
    std::string text;
    for (const ConfigValue::Entry& entry : dict.entries())
      text += (text.empty() ? "" : ", ") +
              (entry.key_type == "str" ? python_quoted(entry.key) : entry.key);
    text = text.empty() ? "set()" : "{" + text + "}";
    return PythonObject{"set", text, text};
  }

  /// A list of tuples.
  ConfigValue pairs(NodeId id) {
    const Node& node = document_.at(id);
    if (node.kind != NodeKind::sequence)
      throw error(node, "expected a list of mappings of one key");
    ConfigValue::List result;
    for (const NodeId element : std::vector<NodeId>(node.elements)) {
      const Node& single = document_.at(element);
      if (single.kind != NodeKind::mapping || single.pairs.size() != 1)
        throw error(single, "expected a mapping of one key");
      const Node::Pair pair = single.pairs.front();
      const std::string key = value(pair.key).repr();
      const std::string text = fmt::format("({}, {})", key, value(pair.value).repr());
      result.emplace_back(PythonObject{"tuple", text, text});
    }
    return ConfigValue(std::move(result));
  }

  yaml::Document document_;
  std::string file_;
  std::vector<bool> open_;
  std::vector<std::string> path_;
  int aliased_ = 0;  ///< nodes around the current one that an alias names
  std::size_t values_ = 0;
  std::size_t text_ = 0;
  std::size_t merged_pairs_ = 0;
};

}  // namespace

ConfigValue read_yaml(std::string_view text, std::string_view file) {
  yaml::Document document = yaml::compose(text, file);
  if (document.empty) return {};
  return Constructor(std::move(document), file).construct();
}

}  // namespace shardscope
