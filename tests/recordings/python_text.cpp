#include "tests/recordings/python_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

std::string in_quotes(const std::string& text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') out += '\\';
    out += c;
  }
  return out + quote;
}

}  // namespace

std::string python_text(const Json& value, bool is_inside) {
  if (value.is_null()) return "None";
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    return is_inside ? in_quotes(text) : text;
  }
  if (!value.is_array()) return value.dump();
  std::string out = "(";
  for (const Json& element : value) {
    if (out.size() > 1) out += ", ";
    out += python_text(element, true);
  }
  return out + (value.size() == 1 ? ",)" : ")");
}

void sort_rows(Json& rows, std::size_t key_columns) {
  const auto key = [&](const Json& row) {
    if (key_columns == 1) return python_text(row[0]);
    Json tuple = Json::array();
    for (std::size_t i = 0; i < key_columns; ++i) tuple.push_back(row[i]);
    return python_text(tuple);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Json& a, const Json& b) { return key(a) < key(b); });
}

}  // namespace shardscope::recordings
