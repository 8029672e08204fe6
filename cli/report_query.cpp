#include "cli/report_query.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/trace_input.h"
#include "cli/whole_traces.h"
#include "core/format/is_there.h"
#include "core/format/json_string.h"
#include "traces/chrome_reader.h"
#include "traces/query/query.h"
#include "traces/run_folder.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

template <class Value>
std::vector<std::shared_ptr<const Value>> shared(std::vector<Value> values) {
  std::vector<std::shared_ptr<const Value>> result;
  for (Value& value : values) result.push_back(std::make_shared<const Value>(std::move(value)));
  return result;
}

std::string name_of_run(const fs::path& path) {
  const fs::path whole = path.has_filename() ? path : path.parent_path();
  return whole.filename().string();
}

QueryRun predicted_run(const fs::path& path) {
  const RunFolder folder{path};
  QueryRun run{.scenario = name_of_run(path), .side = "predicted"};
  run.ranks.push_back(
      std::make_shared<const Trace>(read_chrome_trace(folder.predicted_trace()).trace));
  if (is_there(folder.predicted_buffers())) run.buffers = read_buffers(folder.predicted_buffers());
  return run;
}

QueryRun profiled_run(const fs::path& path, const OutputOptions& output) {
  Imported imported = read_traces({path}, output);
  require_events(imported, path);
  QueryRun run{.scenario = name_of_run(path), .side = "profiled"};
  run.ranks = shared(whole_traces(path, imported.traces));
  run.imported = shared(std::move(imported.traces));
  run.snapshots = shared(std::move(imported.snapshots));
  return run;
}

struct CellText {
  std::string operator()(std::monostate) const { return "NULL"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{:.6g}", value); }
  std::string operator()(const std::string& value) const { return value; }
};

struct CellJson {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    return std::isfinite(value) ? fmt::format("{}", value) : "null";
  }
  std::string operator()(const std::string& value) const {
    std::string text;
    append_json_string(text, value);
    return text;
  }
};

std::string json_of(const QueryResult& result) {
  std::string text = "{\"schema\": \"shardscope.query/1\", \"columns\": [";
  const CellJson cell;
  for (std::size_t i = 0; i < result.columns.size(); ++i)
    text += (i > 0 ? ", " : "") + cell(result.columns[i]);
  text += "], \"rows\": [";
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    text += i > 0 ? ",\n  [" : "\n  [";
    for (std::size_t j = 0; j < result.rows[i].size(); ++j)
      text += (j > 0 ? ", " : "") + std::visit(cell, result.rows[i][j]);
    text += "]";
  }
  return text + fmt::format("], \"is_cut\": {}}}\n", result.is_cut);
}

bool is_number(const QueryValue& value) {
  return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value);
}

std::string text_of(const QueryResult& result, const Painter& painter) {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < result.columns.size(); ++i) {
    const bool is_right = !result.rows.empty() && is_number(result.rows.front()[i]);
    columns.push_back({result.columns[i], is_right ? Align::right : Align::left});
  }
  Table table(std::move(columns));
  for (const std::vector<QueryValue>& row : result.rows) {
    std::vector<Cell> cells;
    for (const QueryValue& value : row) cells.emplace_back(std::visit(CellText(), value));
    table.row(std::move(cells));
  }
  return table.text(painter);
}

}  // namespace

ExitCode report_query(const fs::path& path, const std::string& sql, const OutputOptions& output) {
  std::vector<QueryRun> runs;
  const bool is_predicted = is_there(RunFolder{path}.predicted_trace());
  if (is_predicted) runs.push_back(predicted_run(path));
  if (!is_predicted || is_there(RunFolder{path}.trace(0)))
    runs.push_back(profiled_run(path, output));
  const QueryResult result = run_query(runs, sql);
  print(output.json ? json_of(result) : text_of(result, output.painter()));
  if (result.is_cut)
    output.note(fmt::format("only the first {} rows are shown; add LIMIT or a condition",
                            result.rows.size()));
  return ExitCode::done;
}

}  // namespace shardscope
