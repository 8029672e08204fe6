#include "core/config/yaml/characters.h"

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "core/format/python_text.h"

namespace shardscope::yaml {
namespace {

constexpr std::size_t max_bytes = std::size_t{8} << 20;

/// Source: reader.py, Reader.NON_PRINTABLE.
bool is_allowed(char32_t c) {
  return c == U'\t' || c == U'\n' || c == U'\r' || (c >= 0x20 && c <= 0x7E) || c == 0x85 ||
         (c >= 0xA0 && c <= 0xD7FF) || (c >= 0xE000 && c <= 0xFFFD) || c >= 0x10000;
}

}  // namespace

Characters::Characters(std::string_view bytes, std::string_view file) : file_(file) {
  if (bytes.size() > max_bytes)
    throw Error(
        {.where = file_,
         .what = fmt::format("has {} bytes; a configuration of more than {} MiB is not read",
                             bytes.size(), max_bytes >> 20),
         .way_out = "shorten it"});
  refuse_wide_encoding(bytes, file_);
  text_.reserve(bytes.size() + 1);
  for (int line = 0; !bytes.empty();) {
    const CodePoint point = first_code_point(bytes);
    if (point.bytes == 0)
      throw error("UnicodeDecodeError", {.index = 0, .line = line}, "the text is not valid UTF-8");
    char32_t c = point.value;
    if (!is_allowed(c))
      throw error("ReaderError", {.index = 0, .line = line},
                  fmt::format("the character U+{:04X} is not allowed in YAML", point.value));
    bytes.remove_prefix(point.bytes);
    if (c == U'\r') {
      c = U'\n';
      if (bytes.starts_with('\n')) bytes.remove_prefix(1);
    }
    if (c == U'\n') ++line;
    text_ += c;
  }
}

std::string Characters::prefix(std::size_t length) const {
  std::string out;
  for (std::size_t i = 0; i < length && at_ + i < text_.size(); ++i)
    append_utf8(out, text_[at_ + i]);
  return out;
}

void Characters::forward(std::size_t length) {
  for (; length > 0 && at_ < text_.size(); --length) {
    const char32_t c = text_[at_++];
    if (breaks.find(c) != std::u32string_view::npos) {
      ++line_;
      column_ = 0;
    } else if (c != U'\uFEFF') {
      ++column_;
    }
  }
}

bool Characters::at_document_marker(char32_t dots) const {
  return peek() == dots && peek(1) == dots && peek(2) == dots && next_in(white_or_end, 3);
}

std::string Characters::shown_next(std::size_t ahead) const {
  if (at_ + ahead >= text_.size()) return "the end of the file";
  std::string text;
  append_utf8(text, peek(ahead));
  return python_quoted(text);
}

Refusal Characters::error(const char* type, Mark mark, std::string what) const {
  return {type,
          {.where = fmt::format("{}:{}", file_, mark.line + 1),
           .what = std::move(what),
           .way_out = {}}};
}

}  // namespace shardscope::yaml
