// SQL over what runs left: spans, units, steps, memory, buffers, allocations. Read only, within
// bounds.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "traces/import/imported_trace.h"
#include "traces/import/memory_snapshot.h"
#include "traces/predicted_buffers.h"
#include "traces/trace.h"

namespace shardscope {

/// One side of one run, as values that are never changed.
struct QueryRun {
  std::string scenario;  ///< the column of that name: "full_shard x2"
  std::string side;      ///< "predicted", "profiled"
  std::vector<std::shared_ptr<const Trace>> ranks;
  std::vector<std::shared_ptr<const ImportedTrace>> imported;
  std::vector<std::shared_ptr<const MemorySnapshot>> snapshots;
  std::vector<PredictedBuffer> buffers;
};

/// NULL, an integer, a real number or text.
using QueryValue = std::variant<std::monostate, std::int64_t, double, std::string>;

struct QueryResult {
  std::vector<std::string> columns;
  std::vector<std::vector<QueryValue>> rows;
  bool is_cut = false;  ///< there are more rows than the limit
};

struct QueryLimits {
  std::size_t rows = 100'000;
  std::size_t bytes = 64 << 20;  ///< of all texts of the result
  std::chrono::milliseconds time{30'000};
};

/// What can be asked: a table's name, what a row is, and its columns.
struct QueryTableHelp {
  struct Column {
    std::string name, type;  ///< type: "INTEGER", "REAL", "TEXT"
  };
  std::string name, about;
  std::vector<Column> columns;
};
std::vector<QueryTableHelp> query_table_help();

/// Is this program built with SQLite.
bool can_query();

/// Answers one SELECT (SQLite's SQL) over the runs. Nothing but reading is allowed: no statement
/// that writes, attaches, or sets anything, and no file is opened. Throws Error for SQL that is
/// wrong (with its place), that runs longer than the limit, or once `stop` is requested
/// (ExitCode::interrupted). Tables are read where they lie: no time or memory is spent on what is
/// not asked for.
QueryResult run_query(const std::vector<QueryRun>& runs, const std::string& sql,
                      const QueryLimits& limits = {}, const std::stop_token& stop = {});

}  // namespace shardscope
