#include "core/config/yaml/scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardscope::yaml {

std::string_view name_of(TokenKind kind) {
  constexpr std::string_view names[] = {"<stream end>",
                                        "<directive>",
                                        "<document start>",
                                        "<document end>",
                                        "<block sequence start>",
                                        "<block mapping start>",
                                        "<block end>",
                                        "[",
                                        "{",
                                        "]",
                                        "}",
                                        "-",
                                        ",",
                                        "?",
                                        ":",
                                        "<alias>",
                                        "<anchor>",
                                        "<tag>",
                                        "<scalar>"};
  return names[static_cast<int>(kind)];
}

bool Scanner::check(std::initializer_list<TokenKind> kinds) {
  const TokenKind next = peek().kind;
  return std::find(kinds.begin(), kinds.end(), next) != kinds.end();
}

const Token& Scanner::peek() {
  while (needs_more()) fetch_more();
  return tokens_.front();
}

Token Scanner::get() {
  Token token = peek();
  // The end stays, so that looking further never finds nothing.
  if (token.kind == TokenKind::stream_end) return token;
  tokens_.pop_front();
  ++tokens_taken_;
  return token;
}

bool Scanner::needs_more() {
  if (done_) return false;
  if (tokens_.empty()) return true;
  drop_stale_simple_keys();
  return nearest_simple_key() == tokens_taken_;
}

void Scanner::fetch_more() {
  skip_to_next_token();
  drop_stale_simple_keys();
  unwind_indent(column());
  const char32_t next = characters_.peek();
  if (next == U'\0') return fetch_stream_end();
  if (column() == 0) {
    if (next == U'%') {
      unwind_indent(-1);
      remove_simple_key();
      allow_simple_key_ = false;
      return tokens_.push_back(scan_directive());
    }
    if (characters_.at_document_marker(U'-'))
      return fetch_document_marker(TokenKind::document_start);
    if (characters_.at_document_marker(U'.')) return fetch_document_marker(TokenKind::document_end);
  }
  fetch_marked(next);
}

void Scanner::fetch_marked(char32_t next) {
  const bool in_flow = flow_level_ > 0;
  const bool blank_behind = characters_.next_in(white_or_end, 1);
  if (next == U'[') return fetch_flow_start(TokenKind::flow_sequence_start);
  if (next == U'{') return fetch_flow_start(TokenKind::flow_mapping_start);
  if (next == U']') return fetch_flow_end(TokenKind::flow_sequence_end);
  if (next == U'}') return fetch_flow_end(TokenKind::flow_mapping_end);
  if (next == U',') return fetch_flow_entry();
  if (next == U'-' && blank_behind) return fetch_block_entry();
  if (next == U'?' && (in_flow || blank_behind)) return fetch_key();
  if (next == U':' && (in_flow || blank_behind)) return fetch_value();
  if (next == U'*') return fetch_with_simple_key(&Scanner::scan_alias);
  if (next == U'&') return fetch_with_simple_key(&Scanner::scan_anchor);
  if (next == U'!') return fetch_with_simple_key(&Scanner::scan_tag);
  if ((next == U'|' || next == U'>') && !in_flow) return fetch_block_scalar();
  if (next == U'\'' || next == U'"') return fetch_with_simple_key(&Scanner::scan_flow_scalar);
  if (starts_plain()) return fetch_with_simple_key(&Scanner::scan_plain);
  throw error(characters_.mark(),
              fmt::format("no token can start with {}{}", characters_.shown_next(),
                          next == U'\t' ? " (a tab): indent with spaces" : ""));
}

void Scanner::skip_to_next_token() {
  if (characters_.mark().index == 0 && characters_.peek() == U'\uFEFF') characters_.forward();
  while (true) {
    while (characters_.peek() == U' ') characters_.forward();
    if (characters_.peek() == U'#')
      while (!characters_.next_in(break_or_end)) characters_.forward();
    if (scan_line_break().empty()) return;
    if (flow_level_ == 0) allow_simple_key_ = true;
  }
}

std::optional<std::size_t> Scanner::nearest_simple_key() const {
  std::optional<std::size_t> nearest;
  for (const auto& [level, key] : simple_keys_)
    if (!nearest || key.token_number < *nearest) nearest = key.token_number;
  return nearest;
}

void Scanner::refuse_required(const SimpleKey& key) const {
  if (key.required) throw error(key.mark, "expected ':' behind a key");
}

void Scanner::drop_stale_simple_keys() {
  const Mark now = characters_.mark();
  for (auto i = simple_keys_.begin(); i != simple_keys_.end();) {
    const SimpleKey& key = i->second;
    if (key.mark.line == now.line && now.index - key.mark.index <= 1024) {
      ++i;
      continue;
    }
    refuse_required(key);
    i = simple_keys_.erase(i);
  }
}

void Scanner::save_simple_key() {
  if (!allow_simple_key_) return;
  remove_simple_key();
  simple_keys_[flow_level_] = {.token_number = tokens_taken_ + tokens_.size(),
                               .required = flow_level_ == 0 && indent_ == column(),
                               .mark = characters_.mark()};
}

void Scanner::remove_simple_key() {
  const auto found = simple_keys_.find(flow_level_);
  if (found == simple_keys_.end()) return;
  refuse_required(found->second);
  simple_keys_.erase(found);
}

void Scanner::unwind_indent(int column) {
  if (flow_level_ > 0) return;
  while (indent_ > column) {
    indent_ = indents_.back();
    indents_.pop_back();
    add(TokenKind::block_end, 0);
  }
}

bool Scanner::add_indent(int column) {
  if (indent_ >= column) return false;
  indents_.push_back(indent_);
  indent_ = column;
  return true;
}

void Scanner::add(TokenKind kind, std::size_t length) {
  Token token{.kind = kind, .start = characters_.mark()};
  tokens_.push_back(std::move(token));
  characters_.forward(length);
}

void Scanner::insert_at(const SimpleKey& key, TokenKind kind) {
  Token token{.kind = kind, .start = key.mark};
  const auto place = static_cast<std::ptrdiff_t>(key.token_number - tokens_taken_);
  tokens_.insert(tokens_.begin() + place, std::move(token));
}

void Scanner::fetch_stream_end() {
  // In flow context the indentation stays, and the parser finds the bracket missing.
  unwind_indent(-1);
  remove_simple_key();
  allow_simple_key_ = false;
  simple_keys_.clear();
  add(TokenKind::stream_end, 0);
  done_ = true;
}

void Scanner::fetch_document_marker(TokenKind kind) {
  unwind_indent(-1);
  remove_simple_key();
  allow_simple_key_ = false;
  add(kind, 3);
}

void Scanner::fetch_flow_start(TokenKind kind) {
  save_simple_key();
  ++flow_level_;
  allow_simple_key_ = true;
  add(kind, 1);
}

void Scanner::fetch_flow_end(TokenKind kind) {
  remove_simple_key();
  // PyYAML goes below zero here, which its parser then refuses; so does ours at the bracket.
  if (flow_level_ > 0) --flow_level_;
  allow_simple_key_ = false;
  add(kind, 1);
}

void Scanner::fetch_flow_entry() {
  allow_simple_key_ = true;
  remove_simple_key();
  add(TokenKind::flow_entry, 1);
}

void Scanner::fetch_block_entry() {
  if (flow_level_ == 0) {
    if (!allow_simple_key_)
      throw error(characters_.mark(), "an entry of a list is not allowed here");
    if (add_indent(column())) add(TokenKind::block_sequence_start, 0);
  }
  allow_simple_key_ = true;
  remove_simple_key();
  add(TokenKind::block_entry, 1);
}

void Scanner::fetch_key() {
  if (flow_level_ == 0) {
    if (!allow_simple_key_) throw error(characters_.mark(), "a key is not allowed here");
    if (add_indent(column())) add(TokenKind::block_mapping_start, 0);
  }
  allow_simple_key_ = flow_level_ == 0;
  remove_simple_key();
  add(TokenKind::key, 1);
}

void Scanner::fetch_value() {
  const auto found = simple_keys_.find(flow_level_);
  if (found != simple_keys_.end()) {
    const SimpleKey key = found->second;
    simple_keys_.erase(found);
    insert_at(key, TokenKind::key);
    if (flow_level_ == 0 && add_indent(key.mark.column))
      insert_at(key, TokenKind::block_mapping_start);
    allow_simple_key_ = false;
  } else {
    if (flow_level_ == 0) {
      if (!allow_simple_key_)
        throw error(characters_.mark(), "a value of a mapping is not allowed here");
      if (add_indent(column())) add(TokenKind::block_mapping_start, 0);
    }
    allow_simple_key_ = flow_level_ == 0;
    remove_simple_key();
  }
  add(TokenKind::value, 1);
}

void Scanner::fetch_with_simple_key(Token (Scanner::*scan)()) {
  save_simple_key();
  allow_simple_key_ = false;
  tokens_.push_back((this->*scan)());
}

void Scanner::fetch_block_scalar() {
  allow_simple_key_ = true;
  remove_simple_key();
  tokens_.push_back(scan_block_scalar());
}

bool Scanner::starts_plain() const {
  constexpr std::u32string_view indicators = U"-?:,[]{}#&*!|>'\"%@`";
  const char32_t next = characters_.peek();
  if (!characters_.next_in(white_or_end) && !characters_.next_in(indicators)) return true;
  if (characters_.next_in(white_or_end, 1)) return false;
  return next == U'-' || (flow_level_ == 0 && (next == U'?' || next == U':'));
}

}  // namespace shardscope::yaml
