// YAML text to tokens, exactly as PyYAML 6.0.3 does it.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/yaml/characters.h"

namespace shardscope::yaml {

enum class TokenKind : std::uint8_t {
  stream_end,
  directive,
  document_start,
  document_end,
  block_sequence_start,
  block_mapping_start,
  block_end,
  flow_sequence_start,
  flow_mapping_start,
  flow_sequence_end,
  flow_mapping_end,
  block_entry,
  flow_entry,
  key,
  value,
  alias,
  anchor,
  tag,
  scalar,
};

/// "<block end>", as in PyYAML's messages.
std::string_view name_of(TokenKind kind);

struct Token {
  TokenKind kind = TokenKind::stream_end;
  Mark start;
  /// Of a scalar, alias or anchor: its text. Of a tag: the suffix. Of a directive: its name.
  std::string text;
  std::optional<std::string> handle;  ///< of a tag or a TAG directive: "!", "!!"...
  std::string prefix;                 ///< of a TAG directive
  int major = 0;                      ///< of a YAML directive
  bool plain = false;                 ///< of a scalar: without quotes
};

/// Source: PyYAML 6.0.3 scanner.py, Scanner. Raises ScannerError.
class Scanner {
 public:
  Scanner(std::string_view bytes, std::string_view file) : characters_(bytes, file) {}

  bool check(std::initializer_list<TokenKind> kinds);
  const Token& peek();
  Token get();
  const Characters& characters() const { return characters_; }

 private:
  /// A token that becomes a key if a ':' follows on the same line within 1024 characters.
  struct SimpleKey {
    std::size_t token_number = 0;
    bool required = false;
    Mark mark;
  };

  bool needs_more();
  void fetch_more();
  void fetch_marked(char32_t next);
  void skip_to_next_token();

  std::optional<std::size_t> nearest_simple_key() const;
  void drop_stale_simple_keys();
  void save_simple_key();
  void remove_simple_key();
  void refuse_required(const SimpleKey& key) const;

  void unwind_indent(int column);
  bool add_indent(int column);

  void add(TokenKind kind, std::size_t length);
  void insert_at(const SimpleKey& key, TokenKind kind);
  void fetch_stream_end();
  void fetch_document_marker(TokenKind kind);
  void fetch_flow_start(TokenKind kind);
  void fetch_flow_end(TokenKind kind);
  void fetch_flow_entry();
  void fetch_block_entry();
  void fetch_key();
  void fetch_value();
  void fetch_with_simple_key(Token (Scanner::*scan)());
  void fetch_block_scalar();
  bool starts_plain() const;

  // scanner_words.cpp
  Token scan_directive();
  Token scan_name(TokenKind kind);
  Token scan_alias() { return scan_name(TokenKind::alias); }
  Token scan_anchor() { return scan_name(TokenKind::anchor); }
  Token scan_tag();
  std::string scan_directive_name(Mark start);
  int scan_directive_number(Mark start);
  void scan_yaml_directive(Token& token);
  void scan_tag_directive(Token& token);
  std::string scan_tag_handle(Mark start);
  std::string scan_tag_uri(Mark start);
  std::string scan_uri_escapes(Mark start);
  void skip_rest_of_line(Mark start, const char* what);
  std::string take_word();

  // scanner_scalars.cpp
  struct BlockHeader {
    std::optional<bool> keep;  ///< '+': true, '-': false
    std::optional<int> increment;
  };
  Token scan_block_scalar();
  BlockHeader scan_block_header(Mark start);
  int scan_block_increment(Mark start);
  std::string scan_block_breaks(int indent);
  std::string scan_block_indentation(int& widest);
  Token scan_flow_scalar();
  std::string scan_flow_text(bool doubled, Mark start);
  bool scan_escape(std::string& out, Mark start);
  std::string scan_flow_spaces(Mark start);
  std::string scan_flow_breaks(Mark start);
  Token scan_plain();
  std::size_t plain_length() const;
  std::string scan_plain_spaces(bool& ended);
  std::string scan_line_break();
  std::string take(std::size_t length);

  Refusal error(Mark mark, std::string what) const {
    return characters_.error("ScannerError", mark, std::move(what));
  }
  int column() const { return characters_.mark().column; }

  Characters characters_;
  std::deque<Token> tokens_;
  std::size_t tokens_taken_ = 0;
  bool done_ = false;
  std::size_t flow_level_ = 0;
  int indent_ = -1;
  std::vector<int> indents_;
  bool allow_simple_key_ = true;
  std::map<std::size_t, SimpleKey> simple_keys_;  ///< by flow level
};

}  // namespace shardscope::yaml
