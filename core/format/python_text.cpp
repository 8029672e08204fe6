#include "core/format/python_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/utf8.h"

namespace shardscope {
namespace {

/// First and last of the ranges that are not printable. Source: Unicode 15, categories Cc, Cf, Zl,
/// Zp, Zs, Cs, Co.
constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 24> unprintable{{
    {0x00, 0x1F},       {0x7F, 0xA0},       {0xAD, 0xAD},       {0x600, 0x605},
    {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x1680, 0x1680},
    {0x180E, 0x180E},   {0x2000, 0x200F},   {0x2028, 0x202F},   {0x205F, 0x206F},
    {0x3000, 0x3000},   {0xD800, 0xF8FF},   {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFFB},
    {0xFFFE, 0xFFFF},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0000, 0xE00FF}, {0xE01F0, 0xFFFFF}, {0x100000, 0x10FFFF},
}};

std::string escaped(std::uint32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (c < 0x100) return fmt::format("\\x{:02x}", c);
  return c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
}

template <class Change>
std::string changed(std::string_view text, Change change) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), change);
  return result;
}

}  // namespace

bool python_printable(std::uint32_t code_point) {
  return std::none_of(unprintable.begin(), unprintable.end(), [&](const auto& range) {
    return code_point >= range.first && code_point <= range.second;
  });
}

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string python_quoted(std::string_view text) {
  const bool doubled =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  while (!text.empty()) {
    CodePoint point = first_code_point(text);
    if (point.bytes == 0) point = {static_cast<unsigned char>(text[0]), 1};
    const std::uint32_t c = point.value;
    if (c == '\\' || c == static_cast<std::uint32_t>(quote))
      out += '\\', out += static_cast<char>(c);
    else if (!python_printable(c))
      out += escaped(c);
    else
      append_utf8(out, c);
    text.remove_prefix(point.bytes);
  }
  return out + quote;
}

std::string lower_of(std::string_view text) {
  return changed(text, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
}

std::string upper_of(std::string_view text) {
  return changed(text, [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\r\v\f";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace shardscope
