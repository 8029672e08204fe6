#include "tests/recordings/ports/execution_trace.h"

#include <charconv>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "traces/gzip.h"
#include "traces/import/json_scanner.h"

namespace shardscope {
namespace {

constexpr std::int64_t max_text_bytes = std::int64_t{2} << 30;

std::int64_t integer_or(std::string_view text, std::int64_t otherwise) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

std::string text_of(std::string_view json) {
  return json.starts_with('"') ? unescaped(json.substr(1, json.size() - 2)) : std::string();
}

/// {"name": "rf_id", "type": "uint64", "value": 7}
std::int64_t record_function_of(std::string_view attributes) {
  std::int64_t id = -1;
  for_each_element(attributes, [&](std::string_view attribute) {
    std::string_view name, value;
    for_each_member(attribute, [&](std::string_view key, std::string_view text) {
      if (key == "name") name = text;
      if (key == "value") value = text;
    });
    if (name == "\"rf_id\"") id = integer_or(value, -1);
  });
  return id;
}

ExecutionNode node_of(std::string_view text) {
  ExecutionNode node;
  for_each_member(text, [&](std::string_view key, std::string_view value) {
    if (key == "id") node.id = integer_or(value, 0);
    if (key == "name") node.name = text_of(value);
    if (key == "attrs") node.record_function = record_function_of(value);
    if (key != "inputs") return;
    for_each_member(value, [&](std::string_view input, std::string_view shapes) {
      if (input == "shapes") node.input_shapes = shapes;
    });
  });
  return node;
}

}  // namespace

ExecutionTrace read_execution_trace(const std::filesystem::path& path) {
  std::string text = read_whole(path, max_text_bytes);
  if (is_gzip(text)) text = gunzip(text, max_text_bytes, path.string());
  ExecutionTrace trace;
  bool has_nodes = false;
  for_each_member(text, [&](std::string_view key, std::string_view value) {
    if (key != "nodes") return void(trace.header.emplace_back(unescaped(key), value));
    has_nodes = true;
    for_each_element(value, [&](std::string_view node) { trace.nodes.push_back(node_of(node)); });
  });
  if (has_nodes) return trace;
  throw Error({.where = path.string(), .what = "not an execution trace: no whole list of nodes"});
}

}  // namespace shardscope
