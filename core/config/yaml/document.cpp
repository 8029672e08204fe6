#include "core/config/yaml/document.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "core/config/yaml/resolver.h"
#include "core/config/yaml/scanner.h"

namespace shardscope::yaml {
namespace {

using enum TokenKind;

constexpr int max_depth = 200;

/// Where a node stands decides which forms it may take.
enum class Place : std::uint8_t { block, block_or_indentless, flow };

class Composer {
 public:
  Composer(std::string_view bytes, std::string_view file) : scanner_(bytes, file) {}

  Document compose() {
    if (check({directive, document_start, stream_end})) {
      explicit_document();
    } else {
      reset_handles();
      document_.root = node(Place::block, 0);
      document_.empty = false;
      if (check({document_end})) scanner_.get();
    }
    refuse_second_document();
    return std::move(document_);
  }

 private:
  bool check(std::initializer_list<TokenKind> kinds) { return scanner_.check(kinds); }
  Refusal error(const char* type, Mark mark, std::string what) const {
    return scanner_.characters().error(type, mark, std::move(what));
  }
  Refusal unexpected(std::string_view expected) {
    const Token& token = scanner_.peek();
    return error("ParserError", token.start,
                 fmt::format("expected {}, got {}", expected, name_of(token.kind)));
  }

  void explicit_document() {
    skip_document_ends();
    if (check({stream_end})) return;
    document_start_line();
    document_.empty = false;
    if (check({directive, document_start, document_end, stream_end}))
      document_.root = empty_scalar(scanner_.peek().start);
    else
      document_.root = node(Place::block, 0);
    if (check({document_end})) scanner_.get();
  }

  void document_start_line() {
    directives();
    if (!check({document_start})) throw unexpected("the start of a document (---)");
    scanner_.get();
  }

  void skip_document_ends() {
    while (check({document_end})) scanner_.get();
  }

  void refuse_second_document() {
    skip_document_ends();
    if (check({stream_end})) return;
    const Mark mark = scanner_.peek().start;
    document_start_line();
    throw error("ComposerError", mark, "expected a single document, but another one starts here");
  }

  void reset_handles() { handles_ = {{"!", "!"}, {"!!", std::string(standard_tag)}}; }

  void directives() {
    std::map<std::string, std::string> own;
    bool has_version = false;
    while (check({directive})) {
      const Token token = scanner_.get();
      if (token.text == "YAML") {
        if (has_version) throw error("ParserError", token.start, "the YAML directive stands twice");
        if (token.major != 1) throw error("ParserError", token.start, "only YAML 1.* is read");
        has_version = true;
      } else if (token.text == "TAG" && !own.emplace(*token.handle, token.prefix).second) {
        throw error("ParserError", token.start, "a tag handle stands twice");
      }
    }
    reset_handles();
    for (auto& [handle, prefix] : own) handles_[handle] = prefix;
  }

  struct Properties {
    std::optional<std::string> anchor;
    std::optional<std::string> tag;
    std::optional<Mark> start;
  };

  Properties properties() {
    Properties result;
    std::optional<Token> tag_token;
    while (true) {
      const bool at_anchor = check({anchor}) && !result.anchor;
      const bool at_tag = check({tag}) && !tag_token;
      if (!at_anchor && !at_tag) break;
      Token token = scanner_.get();
      if (!result.start) result.start = token.start;
      if (at_anchor)
        result.anchor = token.text;
      else
        tag_token = std::move(token);
    }
    if (tag_token) result.tag = full_tag(*tag_token);
    return result;
  }

  std::string full_tag(const Token& token) const {
    if (!token.handle) return token.text;
    const auto found = handles_.find(*token.handle);
    if (found == handles_.end())
      throw error("ParserError", token.start, fmt::format("unknown tag handle {}", *token.handle));
    return found->second + token.text;
  }

  NodeId node(Place place, int depth) {
    if (check({alias})) return node_of_alias(scanner_.get());
    const Properties given = properties();
    const Mark start = given.start.value_or(scanner_.peek().start);
    if (depth > max_depth)
      throw error("RecursionError", start, fmt::format("nested deeper than {}", max_depth));
    const bool in_block = place != Place::flow;
    if (place == Place::block_or_indentless && check({block_entry}))
      return sequence(given, start, [&](NodeId id) { indentless_sequence(id, depth); });
    if (check({scalar})) return scalar_node(given, start);
    if (check({flow_sequence_start}))
      return sequence(given, start, [&](NodeId id) { flow_sequence(id, depth); });
    if (check({flow_mapping_start}))
      return mapping(given, start, [&](NodeId id) { flow_mapping(id, depth); });
    if (in_block && check({block_sequence_start}))
      return sequence(given, start, [&](NodeId id) { block_sequence(id, depth); });
    if (in_block && check({block_mapping_start}))
      return mapping(given, start, [&](NodeId id) { block_mapping(id, depth); });
    if (!given.start) throw unexpected("a value");
    return add(given, start, {.kind = NodeKind::scalar, .tag = scalar_tag(given, {}, true)});
  }

  NodeId node_of_alias(const Token& token) {
    const auto found = anchors_.find(token.text);
    if (found == anchors_.end())
      throw error("ComposerError", token.start, fmt::format("unknown alias *{}", token.text));
    document_.at(found->second).aliased = true;
    return found->second;
  }

  NodeId add(const Properties& given, Mark start, Node fresh) {
    const auto id = static_cast<NodeId>(document_.nodes.size());
    if (given.anchor && !anchors_.emplace(*given.anchor, id).second)
      throw error("ComposerError", start,
                  fmt::format("the anchor &{} stands twice", *given.anchor));
    fresh.line = start.line + 1;
    document_.nodes.push_back(std::move(fresh));
    return id;
  }

  static bool is_implicit(const Properties& given) { return !given.tag || *given.tag == "!"; }

  /// Only a plain scalar, or one tagged "!", is looked at; a quoted one is text.
  static std::string scalar_tag(const Properties& given, const std::string& text, bool plain) {
    if (!is_implicit(given)) return *given.tag;
    if ((plain && !given.tag) || given.tag == "!") return resolved_tag(text);
    return std::string(standard_tag) + "str";
  }

  NodeId scalar_node(const Properties& given, Mark start) {
    Token token = scanner_.get();
    std::string tag = scalar_tag(given, token.text, token.plain);
    return add(given, start,
               {.kind = NodeKind::scalar, .tag = std::move(tag), .text = std::move(token.text)});
  }

  NodeId empty_scalar(Mark mark) {
    return add({}, mark, {.kind = NodeKind::scalar, .tag = resolved_tag("")});
  }

  template <class Fill>
  NodeId sequence(const Properties& given, Mark start, Fill fill) {
    return collection(NodeKind::sequence, "seq", given, start, fill);
  }
  template <class Fill>
  NodeId mapping(const Properties& given, Mark start, Fill fill) {
    return collection(NodeKind::mapping, "map", given, start, fill);
  }

  template <class Fill>
  NodeId collection(NodeKind kind, std::string_view tag, const Properties& given, Mark start,
                    Fill fill) {
    const NodeId id = add(
        given, start,
        {.kind = kind,
         .tag = is_implicit(given) ? std::string(standard_tag) + std::string(tag) : *given.tag});
    fill(id);
    return id;
  }

  void add_element(NodeId sequence, NodeId element) {
    document_.at(sequence).elements.push_back(element);
  }
  void add_pair(NodeId mapping, NodeId key, NodeId value) {
    document_.at(mapping).pairs.push_back({.key = key, .value = value});
  }

  void block_sequence(NodeId id, int depth) {
    scanner_.get();
    while (check({block_entry})) {
      const Mark mark = scanner_.get().start;
      add_element(
          id, check({block_entry, block_end}) ? empty_scalar(mark) : node(Place::block, depth + 1));
    }
    if (!check({block_end})) throw unexpected("the end of the list");
    scanner_.get();
  }

  void indentless_sequence(NodeId id, int depth) {
    while (check({block_entry})) {
      const Mark mark = scanner_.get().start;
      add_element(id, check({block_entry, key, value, block_end}) ? empty_scalar(mark)
                                                                  : node(Place::block, depth + 1));
    }
  }

  void block_mapping(NodeId id, int depth) {
    scanner_.get();
    const auto part = [&] {
      const Mark mark = scanner_.get().start;
      return check({key, value, block_end}) ? empty_scalar(mark)
                                            : node(Place::block_or_indentless, depth + 1);
    };
    while (check({key})) {
      const NodeId own_key = part();
      const NodeId own_value = check({value}) ? part() : empty_scalar(scanner_.peek().start);
      add_pair(id, own_key, own_value);
    }
    if (!check({block_end})) throw unexpected("a key or the end of the mapping");
    scanner_.get();
  }

  /// A node, or an empty one before one of `ends`. The token in front of it is taken.
  NodeId flow_part(std::initializer_list<TokenKind> ends, int depth) {
    const Mark mark = scanner_.get().start;
    return check(ends) ? empty_scalar(mark) : node(Place::flow, depth + 1);
  }

  void flow_sequence(NodeId id, int depth) {
    scanner_.get();
    for (bool first = true; !check({flow_sequence_end}); first = false) {
      if (!first) {
        if (!check({flow_entry})) throw unexpected("',' or ']'");
        scanner_.get();
      }
      if (check({key}))
        add_element(id, single_pair(depth));
      else if (!check({flow_sequence_end}))
        add_element(id, node(Place::flow, depth + 1));
    }
    scanner_.get();
  }

  /// "[a: b]" is a list of a mapping.
  NodeId single_pair(int depth) {
    return mapping({}, scanner_.peek().start, [&](NodeId id) {
      const NodeId own_key = flow_part({value, flow_entry, flow_sequence_end}, depth + 1);
      const NodeId own_value = check({value})
                                   ? flow_part({flow_entry, flow_sequence_end}, depth + 1)
                                   : empty_scalar(scanner_.peek().start);
      add_pair(id, own_key, own_value);
    });
  }

  void flow_mapping(NodeId id, int depth) {
    scanner_.get();
    for (bool first = true; !check({flow_mapping_end}); first = false) {
      if (!first) {
        if (!check({flow_entry})) throw unexpected("',' or '}'");
        scanner_.get();
      }
      if (check({key})) {
        const NodeId own_key = flow_part({value, flow_entry, flow_mapping_end}, depth);
        const NodeId own_value = check({value}) ? flow_part({flow_entry, flow_mapping_end}, depth)
                                                : empty_scalar(scanner_.peek().start);
        add_pair(id, own_key, own_value);
      } else if (!check({flow_mapping_end})) {
        const NodeId own_key = node(Place::flow, depth + 1);
        add_pair(id, own_key, empty_scalar(scanner_.peek().start));
      }
    }
    scanner_.get();
  }

  Scanner scanner_;
  Document document_;
  std::map<std::string, NodeId> anchors_;
  std::map<std::string, std::string> handles_;
};

}  // namespace

Document compose(std::string_view bytes, std::string_view file) {
  return Composer(bytes, file).compose();
}

}  // namespace shardscope::yaml
