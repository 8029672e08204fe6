#include "core/base/utf8.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

struct Lead {
  std::size_t bytes = 0;
  std::uint32_t bits = 0;
  std::uint32_t smallest = 0;  // of this length; less is an overlong form
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, byte, 0};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {2, byte & 0x1Fu, 0x80};
  if (byte < 0xF0) return {3, byte & 0x0Fu, 0x800};
  if (byte < 0xF5) return {4, byte & 0x07u, 0x10000};
  return {};
}

bool is_scalar(std::uint32_t value) {
  return value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
}

bool is_control(std::uint32_t value) { return value < 0x20 || (value >= 0x7F && value < 0xA0); }

bool is_ascii_text(char c) {
  return (c >= 0x20 && c < 0x7F) || c == '\t' || c == '\n' || c == '\r';
}

/// Whether `text` begins with a character of ASCII in `width` bytes.
bool begins_with_wide_ascii(std::string_view text, std::size_t width) {
  if (text.size() < width) return false;
  const std::string_view zeros = std::string_view("\0\0\0", 3).substr(0, width - 1);
  const bool little = is_ascii_text(text[0]) && text.substr(1).starts_with(zeros);
  return little || (text.starts_with(zeros) && is_ascii_text(text[width - 1]));
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  if (text.empty()) return {};
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.bytes == 0 || lead.bytes > text.size()) return {};
  std::uint32_t value = lead.bits;
  for (std::size_t i = 1; i < lead.bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) != 0x80) return {};
    value = value << 6 | (byte & 0x3Fu);
  }
  if (value < lead.smallest || !is_scalar(value)) return {};
  return {value, lead.bytes};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.bytes == 0) return false;
    text.remove_prefix(point.bytes);
  }
  return true;
}

std::string_view wide_encoding(std::string_view text) {
  // UTF-16's mark is the beginning of UTF-32's.
  constexpr std::string_view marks_32[] = {{"\xff\xfe\0\0", 4}, {"\0\0\xfe\xff", 4}};
  constexpr std::string_view marks_16[] = {"\xff\xfe", "\xfe\xff"};
  for (const std::string_view mark : marks_32)
    if (text.starts_with(mark)) return "UTF-32";
  for (const std::string_view mark : marks_16)
    if (text.starts_with(mark)) return "UTF-16";
  if (begins_with_wide_ascii(text, 4)) return "UTF-32";
  return begins_with_wide_ascii(text, 2) ? "UTF-16" : "";
}

void refuse_wide_encoding(std::string_view text, std::string_view file) {
  const std::string_view encoding = wide_encoding(text);
  if (encoding.empty()) return;
  throw Error({.where = std::string(file),
               .what = fmt::format("the file is {}", encoding),
               .way_out = "save it as UTF-8"});
}

void append_utf8(std::string& text, std::uint32_t code_point) {
  const auto tail = [&](int shift) {
    text += static_cast<char>(0x80 | (code_point >> shift & 0x3F));
  };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0 | code_point >> 6);
    tail(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0 | code_point >> 12);
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0 | code_point >> 18);
    tail(12), tail(6), tail(0);
  }
}

std::string shown(std::string_view text, std::size_t max_bytes) {
  std::string result;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const std::size_t length = point.bytes == 0 ? 1 : point.bytes;
    if (result.size() + length > max_bytes) return result + "...";
    if (point.bytes == 0 || is_control(point.value))
      result += '?';
    else
      result += text.substr(0, length);
    text.remove_prefix(length);
  }
  return result;
}

std::string printable(std::string_view text, std::string_view kept) {
  constexpr std::uint32_t replacement = 0xFFFD;
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const std::size_t length = point.bytes == 0 ? 1 : point.bytes;
    const bool is_kept = kept.find(text.front()) != kept.npos;
    if (point.bytes == 0)
      append_utf8(result, replacement);
    else if (is_control(point.value) && !is_kept)
      result += fmt::format("\\x{:02x}", point.value);
    else
      result += text.substr(0, length);
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace shardscope
