// A parser of our own: it exists because positions are needed, which nlohmann/json gives only for
// syntax errors.
#include "core/format/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "core/base/nearest_word.h"
#include "core/base/utf8.h"
#include "core/format/atomic_file.h"
#include "core/format/json_string.h"

namespace shardscope {
namespace {

constexpr int max_depth = 256;
constexpr std::size_t max_values = std::size_t{1}
                                   << 24;  // bounds memory: "[[],[],..." has a value every 3 bytes

enum class Kind : std::uint8_t { null, boolean, integer, number, string, array, object };

std::string_view name_of(Kind kind) {
  constexpr std::string_view names[] = {"null",     "true or false", "an integer", "a number",
                                        "a string", "an array",      "an object"};
  return names[static_cast<int>(kind)];
}

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

struct JsonValue::Node {
  Kind kind = Kind::null;
  bool boolean = false;
  std::uint32_t line = 0;
  std::uint32_t parent = 0;
  std::uint32_t position = 0;   // among its siblings
  std::uint64_t key_begin = 0;  // into Document::text
  std::uint32_t key_bytes = 0;
  std::uint32_t count = 0;  // of children
  union {
    std::int64_t integer = 0;
    double number;
    std::uint64_t begin;  // string: into Document::text; array, object: into Document::children
  };
  std::uint64_t bytes = 0;  // of a string
};

struct JsonValue::Document {
  std::string file_name;
  std::string text;                     // keys and strings, decoded
  std::vector<Node> nodes;              // 0 is the root
  std::vector<std::uint32_t> children;  // of each array and object, in file order
  std::vector<std::uint32_t> by_key;    // parallel to `children`, of objects: sorted by key

  std::string_view key(const Node& node) const {
    return std::string_view(text).substr(node.key_begin, node.key_bytes);
  }
  std::string_view string(const Node& node) const {
    return std::string_view(text).substr(node.begin, node.bytes);
  }

  std::string path(std::uint32_t index) const {
    if (index == 0) return {};
    const Node& node = nodes[index];
    const std::string before = path(node.parent);
    if (nodes[node.parent].kind == Kind::array) return fmt::format("{}[{}]", before, node.position);
    const std::string name = shown(key(node));
    return before.empty() ? name : before + "." + name;
  }

  std::string where(std::uint32_t index) const {
    const std::string key_path = path(index);
    const std::string place = fmt::format("{}:{}", file_name, nodes[index].line);
    return key_path.empty() ? place : place + ": " + key_path;
  }

  std::optional<std::uint32_t> find(const Node& object, std::string_view wanted) const {
    const auto begin = by_key.begin() + static_cast<std::ptrdiff_t>(object.begin);
    const auto end = begin + object.count;
    const auto found = std::lower_bound(
        begin, end, wanted,
        [&](std::uint32_t child, std::string_view name) { return key(nodes[child]) < name; });
    if (found == end || key(nodes[*found]) != wanted) return std::nullopt;
    return *found;
  }

  void dump(std::string& out, std::uint32_t index) const;

  class Parser;
};

void JsonValue::Document::dump(std::string& out, std::uint32_t index) const {
  const Node& node = nodes[index];
  switch (node.kind) {
    case Kind::null:
      out += "null";
      return;
    case Kind::boolean:
      out += node.boolean ? "true" : "false";
      return;
    case Kind::integer:
      out += fmt::format("{}", node.integer);
      return;
    case Kind::number:
      out += number_text(node.number);
      return;
    case Kind::string:
      append_json_string(out, string(node));
      return;
    case Kind::array:
    case Kind::object:
      break;
  }
  const bool keyed = node.kind == Kind::object;
  out += keyed ? '{' : '[';
  for (std::uint32_t i = 0; i < node.count; ++i) {
    const std::uint32_t child = children[node.begin + i];
    if (i > 0) out += ',';
    if (keyed) append_json_string(out, key(nodes[child])), out += ':';
    dump(out, child);
  }
  out += keyed ? '}' : ']';
}

/// Recursive descent over the text; the depth is limited, so the stack is too.
class JsonValue::Document::Parser {
 public:
  Parser(Document& document, std::string_view text, DuplicateKeys duplicates)
      : document_(document), rest_(text), duplicates_(duplicates) {}

  void parse() {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    value(0, 0);
    skip_blanks();
    if (!rest_.empty()) fail("expected the end of the file, got " + next_text());
  }

 private:
  std::uint32_t new_node(std::uint32_t parent) {
    if (document_.nodes.size() >= max_values)
      fail(fmt::format("it has more than {} values", max_values));
    Node& node = document_.nodes.emplace_back();
    node.line = line_;
    node.parent = parent;
    return static_cast<std::uint32_t>(document_.nodes.size() - 1);
  }
  Node& at(std::uint32_t index) { return document_.nodes[index]; }

  std::uint32_t value(std::uint32_t parent, int depth) {
    skip_blanks();
    const std::uint32_t index = new_node(parent);
    if (rest_.empty()) fail("the file ends where a value is expected");
    const char c = rest_.front();
    if (c == '{' || c == '[') {
      if (depth >= max_depth) fail(fmt::format("nested deeper than {}", max_depth));
      c == '{' ? object(index, depth) : array(index, depth);
    } else if (c == '"') {
      const auto [begin, bytes] = string();
      at(index).kind = Kind::string;
      at(index).begin = begin;
      at(index).bytes = bytes;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      number(index);
    } else {
      word(index);
    }
    return index;
  }

  void object(std::uint32_t index, int depth) {
    rest_.remove_prefix(1);
    const std::size_t base = pending_.size();
    skip_blanks();
    for (bool first = true; !take('}'); first = false) {
      if (!first && !take(',')) fail("expected ',' or '}', got " + next_text());
      skip_blanks();
      if (rest_.empty() || rest_.front() != '"')
        fail("expected a key in double quotes, got " + next_text());
      const auto [key_begin, key_bytes] = string();
      if (key_bytes > std::numeric_limits<std::uint32_t>::max()) fail("a key is too long");
      skip_blanks();
      if (!take(':')) fail("expected ':' after a key, got " + next_text());
      const std::uint32_t child = value(index, depth + 1);
      at(child).key_begin = key_begin;
      at(child).key_bytes = static_cast<std::uint32_t>(key_bytes);
      pending_.push_back(child);
      skip_blanks();
    }
    at(index).kind = Kind::object;
    settle_duplicates(base);
    take_children(index, base);
    sort_keys(at(index));
  }

  void array(std::uint32_t index, int depth) {
    rest_.remove_prefix(1);
    const std::size_t base = pending_.size();
    skip_blanks();
    for (bool first = true; !take(']'); first = false) {
      if (!first && !take(',')) fail("expected ',' or ']', got " + next_text());
      pending_.push_back(value(index, depth + 1));
      skip_blanks();
    }
    at(index).kind = Kind::array;
    take_children(index, base);
  }

  /// Refuses a repeated key, or lets the last value stand in the place of the first, as Python's
  /// dict does.
  void settle_duplicates(std::size_t base) {
    const auto key = [&](std::uint32_t node) { return document_.key(at(node)); };
    std::vector<std::size_t> places(pending_.size() - base);
    std::iota(places.begin(), places.end(), base);
    std::sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
      const int order = key(pending_[a]).compare(key(pending_[b]));
      return order != 0 ? order < 0 : a < b;
    });
    constexpr std::uint32_t gone = std::numeric_limits<std::uint32_t>::max();
    for (std::size_t i = 1, first = 0; i < places.size(); ++i) {
      const std::uint32_t child = pending_[places[i]];
      if (key(pending_[places[first]]) != key(child)) {
        first = i;
        continue;
      }
      if (duplicates_ == DuplicateKeys::refuse)
        fail_at(at(child).line, fmt::format("the key \"{}\" stands twice", shown(key(child))));
      pending_[places[first]] = child;
      pending_[places[i]] = gone;
    }
    pending_.erase(
        std::remove(pending_.begin() + static_cast<std::ptrdiff_t>(base), pending_.end(), gone),
        pending_.end());
  }

  void take_children(std::uint32_t index, std::size_t base) {
    Node& node = at(index);
    node.begin = document_.children.size();
    node.count = static_cast<std::uint32_t>(pending_.size() - base);
    for (std::size_t i = base; i < pending_.size(); ++i)
      at(pending_[i]).position = static_cast<std::uint32_t>(i - base);
    document_.children.insert(document_.children.end(),
                              pending_.begin() + static_cast<std::ptrdiff_t>(base), pending_.end());
    document_.by_key.resize(document_.children.size());
    pending_.resize(base);
  }

  void sort_keys(const Node& object) {
    const auto begin = static_cast<std::ptrdiff_t>(object.begin);
    const auto out = document_.by_key.begin() + begin;
    std::copy_n(document_.children.begin() + begin, object.count, out);
    std::sort(out, out + object.count,
              [&](auto a, auto b) { return document_.key(at(a)) < document_.key(at(b)); });
  }

  struct Span {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };

  Span string() {
    rest_.remove_prefix(1);
    std::string& out = document_.text;
    const std::uint64_t begin = out.size();
    while (true) {
      std::size_t plain = 0;
      while (plain < rest_.size() && is_plain(rest_[plain])) ++plain;
      out += rest_.substr(0, plain);
      rest_.remove_prefix(plain);
      if (rest_.empty()) fail("the file ends inside a string");
      const char c = rest_.front();
      if (c == '"') break;
      if (c == '\\')
        escape(out);
      else
        wide_character(out);
    }
    rest_.remove_prefix(1);
    return {begin, out.size() - begin};
  }

  static bool is_plain(char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; }

  void wide_character(std::string& out) {
    const CodePoint point = first_code_point(rest_);
    if (point.bytes == 0) fail("a string is not valid UTF-8");
    if (point.value < 0x20) fail("a control character stands inside a string; write it as \\u00XX");
    out += rest_.substr(0, point.bytes);
    rest_.remove_prefix(point.bytes);
  }

  void escape(std::string& out) {
    if (rest_.size() < 2) fail("the file ends inside a string");
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    const char letter = rest_[1];
    rest_.remove_prefix(2);
    if (letter == 'u') return append_utf8(out, unicode_escape());
    const std::size_t at_letter = letters.find(letter);
    if (at_letter == std::string_view::npos)
      fail(fmt::format("unknown escape \\{} in a string", shown({&letter, 1})));
    out += meanings[at_letter];
  }

  std::uint32_t unicode_escape() {
    const std::uint32_t first = four_hex_digits();
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || !rest_.starts_with("\\u")) fail("half of a surrogate pair in a string");
    rest_.remove_prefix(2);
    const std::uint32_t second = four_hex_digits();
    if (second < 0xDC00 || second > 0xDFFF) fail("half of a surrogate pair in a string");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }

  std::uint32_t four_hex_digits() {
    std::uint32_t value = 0;
    const std::string_view digits = rest_.substr(0, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || end != digits.data() + 4) fail("\\u needs four hexadecimal digits");
    rest_.remove_prefix(4);
    return value;
  }

  std::size_t digits_at(std::size_t i) const {
    const std::size_t begin = i;
    while (i < rest_.size() && rest_[i] >= '0' && rest_[i] <= '9') ++i;
    return i - begin;
  }

  void number(std::uint32_t index) {
    std::size_t i = rest_.front() == '-' ? 1 : 0;
    const std::size_t whole_digits = digits_at(i);
    if (whole_digits == 0 || (whole_digits > 1 && rest_[i] == '0'))
      fail(next_text() + " is not a number");
    i += whole_digits;
    bool integral = true;
    const auto need_digits = [&] {
      const std::size_t n = digits_at(i);
      if (n == 0) fail(next_text() + " is not a number");
      i += n;
      integral = false;
    };
    if (i < rest_.size() && rest_[i] == '.') ++i, need_digits();
    if (i < rest_.size() && (rest_[i] == 'e' || rest_[i] == 'E')) {
      ++i;
      if (i < rest_.size() && (rest_[i] == '+' || rest_[i] == '-')) ++i;
      need_digits();
    }
    store_number(index, rest_.substr(0, i), integral);
    rest_.remove_prefix(i);
  }

  void store_number(std::uint32_t index, std::string_view text, bool integral) {
    const char* const end = text.data() + text.size();
    Node& node = at(index);
    if (integral && std::from_chars(text.data(), end, node.integer).ec == std::errc()) {
      node.kind = Kind::integer;
      return;
    }
    double number = 0;
    if (std::from_chars(text.data(), end, number).ec != std::errc())
      fail(shown(text) + " is out of the range of a double");
    node.kind = Kind::number;
    node.number = number;
  }

  void word(std::uint32_t index) {
    Node& node = at(index);
    if (take_word("null")) return;
    node.kind = Kind::boolean;
    if (take_word("true"))
      node.boolean = true;
    else if (!take_word("false"))
      fail("expected a value, got " + next_text());
  }

  bool take_word(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  bool take(char c) {
    if (rest_.empty()) fail(fmt::format("the file ends where '{}' is expected", c));
    if (rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void skip_blanks() {
    std::size_t i = 0;
    for (; i < rest_.size(); ++i) {
      const char c = rest_[i];
      if (c == '\n')
        ++line_;
      else if (c != ' ' && c != '\t' && c != '\r')
        break;
    }
    rest_.remove_prefix(i);
  }

  std::string next_text() const {
    if (rest_.empty()) return "the end of the file";
    const std::size_t end = std::min(rest_.find_first_of(" \t\r\n,:{}[]", 1), rest_.size());
    return "'" + shown(rest_.substr(0, end), 20) + "'";
  }

  [[noreturn]] void fail(std::string what) const { fail_at(line_, std::move(what)); }
  [[noreturn]] void fail_at(std::uint32_t line, std::string what) const {
    throw Error({.where = fmt::format("{}:{}", document_.file_name, line),
                 .what = std::move(what),
                 .way_out = {}});
  }

  Document& document_;
  std::string_view rest_;
  DuplicateKeys duplicates_;
  std::uint32_t line_ = 1;
  std::vector<std::uint32_t> pending_;  // children of the objects and arrays that are still open
};

JsonValue JsonValue::parse(std::string_view text, std::string_view file_name,
                           DuplicateKeys duplicates) {
  refuse_wide_encoding(text, file_name);
  const auto document = std::make_shared<Document>();
  document->file_name = file_name;
  Document::Parser(*document, text, duplicates).parse();
  return JsonValue(document, 0);
}

JsonValue JsonValue::read_file(const std::filesystem::path& path, DuplicateKeys duplicates,
                               std::int64_t max_bytes) {
  return parse(read_whole(path, max_bytes), path.string(), duplicates);
}

const JsonValue::Node& JsonValue::node() const { return document_->nodes[node_]; }

bool JsonValue::is_null() const { return node().kind == Kind::null; }
bool JsonValue::is_boolean() const { return node().kind == Kind::boolean; }
bool JsonValue::is_integer() const { return node().kind == Kind::integer; }
bool JsonValue::is_number() const { return is_integer() || node().kind == Kind::number; }
bool JsonValue::is_string() const { return node().kind == Kind::string; }
bool JsonValue::is_array() const { return node().kind == Kind::array; }
bool JsonValue::is_object() const { return node().kind == Kind::object; }

Error JsonValue::expected(std::string_view what) const {
  std::string text;
  if (is_array() || is_object())
    text = name_of(node().kind);
  else
    document_->dump(text, node_);
  return error(fmt::format("expected {}, got {}", what, shown(text, 40)));
}

bool JsonValue::boolean() const {
  if (!is_boolean()) throw expected("true or false");
  return node().boolean;
}

std::int64_t JsonValue::integer(std::int64_t min, std::int64_t max) const {
  using Limits = std::numeric_limits<std::int64_t>;
  if (is_integer() && node().integer >= min && node().integer <= max) return node().integer;
  if (min == Limits::min() && max == Limits::max()) throw expected("an integer");
  if (max == Limits::max()) throw expected(fmt::format("an integer of at least {}", min));
  throw expected(fmt::format("an integer from {} to {}", min, max));
}

double JsonValue::number(double min, double max) const {
  if (is_number()) {
    const double value = is_integer() ? static_cast<double>(node().integer) : node().number;
    if (value >= min && value <= max) return value;
  }
  if (std::isinf(min) && std::isinf(max)) throw expected("a number");
  if (std::isinf(max)) throw expected(fmt::format("a number of at least {}", min));
  throw expected(fmt::format("a number from {} to {}", min, max));
}

std::string JsonValue::string() const {
  if (!is_string()) throw expected("a string");
  return std::string(document_->string(node()));
}

std::size_t JsonValue::size() const {
  if (!is_array() && !is_object()) throw expected("an array or an object");
  return node().count;
}

JsonValue JsonValue::operator[](std::size_t index) const {
  if (!is_array()) throw expected("an array");
  if (index >= node().count)
    throw error(fmt::format("expected more than {} elements, got {}", index, node().count));
  return {document_, document_->children[node().begin + index]};
}

std::vector<JsonValue> JsonValue::elements() const {
  if (!is_array()) throw expected("an array");
  std::vector<JsonValue> result;
  result.reserve(node().count);
  for (std::size_t i = 0; i < node().count; ++i) result.push_back((*this)[i]);
  return result;
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::members() const {
  if (!is_object()) throw expected("an object");
  std::vector<std::pair<std::string, JsonValue>> result;
  result.reserve(node().count);
  for (std::size_t i = 0; i < node().count; ++i) {
    const std::uint32_t child = document_->children[node().begin + i];
    result.emplace_back(document_->key(document_->nodes[child]), JsonValue(document_, child));
  }
  return result;
}

bool JsonValue::has(std::string_view key) const {
  if (!is_object()) throw expected("an object");
  return document_->find(node(), key).has_value();
}

JsonValue JsonValue::at(std::string_view key) const {
  if (!is_object()) throw expected("an object");
  if (const auto child = document_->find(node(), key)) return {document_, *child};
  throw error(fmt::format("the key \"{}\" is missing", shown(key)));
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  if (!is_object()) throw expected("an object");
  const auto child = document_->find(node(), key);
  if (!child || document_->nodes[*child].kind == Kind::null) return std::nullopt;
  return JsonValue(document_, *child);
}

void JsonValue::only_keys(std::initializer_list<std::string_view> known) const {
  only_keys(std::vector<std::string_view>(known));
}

void JsonValue::only_keys(const std::vector<std::string_view>& known) const {
  for (const auto& [key, value] : members()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto nearest = nearest_word(key, known);
    throw value.error("unknown key", nearest
                                         ? fmt::format("did you mean \"{}\"?", *nearest)
                                         : fmt::format("known keys: {}", fmt::join(known, ", ")));
  }
}

std::string JsonValue::where() const { return document_->where(node_); }

Error JsonValue::error(std::string what, std::string way_out) const {
  return Error({.where = where(), .what = std::move(what), .way_out = std::move(way_out)});
}

std::string JsonValue::dump() const {
  std::string text;
  document_->dump(text, node_);
  return text;
}

}  // namespace shardscope
