#include "traces/query/query.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <array>
#include <exception>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "traces/query/query_tables.h"

namespace shardscope {
namespace {

constexpr int steps_between_looks = 20'000;  ///< of SQLite's virtual machine, some 1 ms
constexpr int most_value_bytes = 1 << 24;
constexpr int most_sql_bytes = 1 << 17;
/// Of all that SQLite takes in this process: a sort or a join in memory ends there.
constexpr std::int64_t most_memory = std::int64_t{2} << 30;

/// What connecting a table needs.
struct Connection {
  const QueryTable& table;
  bool& is_declaring;  ///< SQLite takes the declaration of a table for a change of its schema
};

// SQLite's modules are structs of C functions, which get what they hang on by downcasts.
struct QueriedTable : sqlite3_vtab {
  explicit QueriedTable(const QueryTable& of) : sqlite3_vtab{}, table(of) {}
  const QueryTable& table;
};

struct TableCursor : sqlite3_vtab_cursor {
  explicit TableCursor(const QueryTable& of) : sqlite3_vtab_cursor{}, table(of) {}
  const QueryTable& table;
  std::size_t row = 0, rows = 0;
};

TableCursor& cursor_of(sqlite3_vtab_cursor* cursor) { return *static_cast<TableCursor*>(cursor); }

std::string declaration_of(const QueryTable& table) {
  std::string sql;
  for (const QueryTableHelp::Column& column : table.help.columns)
    sql += fmt::format("{}{} {}", sql.empty() ? "" : ", ", column.name, column.type);
  return fmt::format("CREATE TABLE {}({})", table.help.name, sql);
}

/// No exception may pass through C.
template <class Work>
int guarded(Work work) {
  try {
    work();
    return SQLITE_OK;
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  } catch (const std::exception&) {
    return SQLITE_ERROR;
  }
}

int connect(sqlite3* database, void* connection, int, const char* const*, sqlite3_vtab** made,
            char**) {
  const auto& of = *static_cast<const Connection*>(connection);
  int status = SQLITE_OK;
  const int thrown = guarded([&] {
    const std::string declaration = declaration_of(of.table);
    of.is_declaring = true;
    status = sqlite3_declare_vtab(database, declaration.c_str());
    of.is_declaring = false;
    if (status == SQLITE_OK) *made = new QueriedTable(of.table);
  });
  return thrown == SQLITE_OK ? status : thrown;
}

int disconnect(sqlite3_vtab* table) {
  delete static_cast<QueriedTable*>(table);
  return SQLITE_OK;
}

/// Every row is looked at: a table that is joined inside another goes outside by this cost.
int best_index(sqlite3_vtab* table, sqlite3_index_info* info) {
  return guarded([&] {
    const std::size_t rows = static_cast<QueriedTable*>(table)->table.rows();
    info->estimatedCost = static_cast<double>(rows);
    info->estimatedRows = static_cast<sqlite3_int64>(rows);
  });
}

int open_cursor(sqlite3_vtab* table, sqlite3_vtab_cursor** cursor) {
  return guarded([&] { *cursor = new TableCursor(static_cast<QueriedTable*>(table)->table); });
}

int close_cursor(sqlite3_vtab_cursor* cursor) {
  delete &cursor_of(cursor);
  return SQLITE_OK;
}

int filter(sqlite3_vtab_cursor* cursor, int, const char*, int, sqlite3_value**) {
  return guarded([&] {
    cursor_of(cursor).row = 0;
    cursor_of(cursor).rows = cursor_of(cursor).table.rows();
  });
}

int next(sqlite3_vtab_cursor* cursor) {
  ++cursor_of(cursor).row;
  return SQLITE_OK;
}

int at_end(sqlite3_vtab_cursor* cursor) {
  return cursor_of(cursor).row >= cursor_of(cursor).rows ? 1 : 0;
}

struct CellWriter {
  sqlite3_context* context;
  void operator()(std::monostate) const { sqlite3_result_null(context); }
  void operator()(std::int64_t value) const { sqlite3_result_int64(context, value); }
  void operator()(double value) const { sqlite3_result_double(context, value); }
  /// What the runs hold outlives the statement.
  void operator()(std::string_view value) const {
    sqlite3_result_text64(context, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  void operator()(const std::string& value) const {
    sqlite3_result_text64(context, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
};

int column(sqlite3_vtab_cursor* cursor, sqlite3_context* context, int number) {
  return guarded([&] {
    const TableCursor& at = cursor_of(cursor);
    std::visit(CellWriter{context}, at.table.cell(at.row, static_cast<std::size_t>(number)));
  });
}

int row_id(sqlite3_vtab_cursor* cursor, sqlite3_int64* id) {
  *id = static_cast<sqlite3_int64>(cursor_of(cursor).row);
  return SQLITE_OK;
}

/// Without xCreate the table is there under its own name; without xUpdate it cannot be written.
constexpr sqlite3_module make_module() {
  sqlite3_module module{};
  module.xConnect = connect;
  module.xDisconnect = disconnect;
  module.xBestIndex = best_index;
  module.xOpen = open_cursor;
  module.xClose = close_cursor;
  module.xFilter = filter;
  module.xNext = next;
  module.xEof = at_end;
  module.xColumn = column;
  module.xRowid = row_id;
  return module;
}
constexpr sqlite3_module read_only_module = make_module();

/// Reading, functions and recursive selects; all else is refused.
int authorize(void* is_declaring, int action, const char*, const char* function, const char*,
              const char*) {
  if (*static_cast<const bool*>(is_declaring)) return SQLITE_OK;
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    case SQLITE_FUNCTION:
      return std::string_view(function) == "load_extension" ? SQLITE_DENY : SQLITE_OK;
    default:
      return SQLITE_DENY;
  }
}

struct Watch {
  const std::stop_token& stop;
  std::chrono::steady_clock::time_point deadline;
  bool is_late = false;
};

int look(void* watch) {
  auto& of = *static_cast<Watch*>(watch);
  of.is_late |= std::chrono::steady_clock::now() > of.deadline;
  return of.is_late || of.stop.stop_requested() ? 1 : 0;
}

std::string known_tables() {
  std::string names;
  for (const QueryTableHelp& help : query_table_help())
    names += (names.empty() ? "" : ", ") + help.name;
  return "tables: " + names + "; `select * from tables` lists their columns";
}

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinalizeQuery {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeQuery>;

class Database {
 public:
  Database(const std::vector<QueryTable>& tables, const QueryLimits& limits,
           const std::stop_token& stop)
      : limits_(limits),
        watch_{.stop = stop, .deadline = std::chrono::steady_clock::now() + limits.time} {
    sqlite3* opened = nullptr;
    const int status = sqlite3_open_v2(
        ":memory:", &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_PRIVATECACHE,
        nullptr);
    database_.reset(opened);
    if (status != SQLITE_OK) fail(status);
    connections_.reserve(tables.size());
    for (const QueryTable& table : tables) {
      connections_.push_back({.table = table, .is_declaring = is_declaring_});
      sqlite3_create_module(opened, table.help.name.c_str(), &read_only_module,
                            &connections_.back());
    }
    restrict();
  }

  QueryResult run(const std::string& sql) {
    const Statement statement = prepare(sql);
    QueryResult result;
    const int columns = sqlite3_column_count(statement.get());
    for (int i = 0; i < columns; ++i)
      result.columns.emplace_back(sqlite3_column_name(statement.get(), i));
    std::size_t bytes = 0;
    while (true) {
      const int status = sqlite3_step(statement.get());
      if (status == SQLITE_DONE) return result;
      if (status != SQLITE_ROW) fail(status);
      if (result.rows.size() >= limits_.rows || bytes > limits_.bytes) {
        result.is_cut = true;
        return result;
      }
      std::vector<QueryValue>& row = result.rows.emplace_back();
      for (int i = 0; i < columns; ++i) {
        row.push_back(value_of(statement.get(), i));
        if (const auto* text = std::get_if<std::string>(&row.back())) bytes += text->size();
      }
    }
  }

 private:
  void restrict() {
    sqlite3* database = database_.get();
    sqlite3_hard_heap_limit64(most_memory);
    sqlite3_exec(database, "PRAGMA temp_store = MEMORY", nullptr, nullptr, nullptr);
    sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_limit(database, SQLITE_LIMIT_LENGTH, most_value_bytes);
    sqlite3_limit(database, SQLITE_LIMIT_SQL_LENGTH, most_sql_bytes);
    sqlite3_limit(database, SQLITE_LIMIT_EXPR_DEPTH, 200);
    sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(database, SQLITE_LIMIT_WORKER_THREADS, 0);
    sqlite3_progress_handler(database, steps_between_looks, look, &watch_);
    sqlite3_set_authorizer(database, authorize, &is_declaring_);
  }

  Statement prepare(const std::string& sql) {
    sqlite3_stmt* prepared = nullptr;
    const char* rest = nullptr;
    const int status = sqlite3_prepare_v2(
        database_.get(), sql.c_str(),
        static_cast<int>(std::min<std::size_t>(sql.size(), most_sql_bytes + 1)), &prepared, &rest);
    Statement statement(prepared);
    if (status != SQLITE_OK) fail(status);
    if (!statement)
      throw Error({.where = "SQL", .what = "there is no statement", .way_out = known_tables()});
    const std::string_view behind(rest);
    if (behind.find_first_not_of(" \t\r\n;") != std::string_view::npos)
      throw Error({.where = "SQL",
                   .what = "there is more than one statement",
                   .way_out = "give one SELECT"});
    return statement;
  }

  static QueryValue value_of(sqlite3_stmt* statement, int column) {
    switch (sqlite3_column_type(statement, column)) {
      case SQLITE_INTEGER:
        return std::int64_t{sqlite3_column_int64(statement, column)};
      case SQLITE_FLOAT:
        return sqlite3_column_double(statement, column);
      case SQLITE_NULL:
        return std::monostate{};
      default: {
        const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
        const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
        return bytes == nullptr ? std::string() : std::string(bytes, size);
      }
    }
  }

  [[noreturn]] void fail(int status) const {
    if (watch_.stop.stop_requested())
      throw Error({.where = "SQL", .what = "stopped", .code = ExitCode::interrupted});
    if (watch_.is_late)
      throw Error({.where = "SQL",
                   .what = fmt::format("ran longer than {} s",
                                       static_cast<double>(limits_.time.count()) / 1000),
                   .way_out = "ask for fewer rows; tables have no indices, so that a join looks at "
                              "every pair"});
    if (status == SQLITE_NOMEM)
      throw Error(
          {.where = "SQL",
           .what = fmt::format("needs more than {} of memory", rounded_text(Bytes{most_memory})),
           .way_out = "ask for fewer rows or columns"});
    if (status == SQLITE_AUTH)
      throw Error({.where = "SQL",
                   .what = "only reading is allowed",
                   .way_out = "give one SELECT, or WITH ... SELECT"});
    const int offset = sqlite3_error_offset(database_.get());
    throw Error({.where = offset < 0 ? "SQL" : fmt::format("SQL, character {}", offset + 1),
                 .what = sqlite3_errmsg(database_.get()),
                 .way_out = known_tables()});
  }

  QueryLimits limits_;
  Watch watch_;
  bool is_declaring_ = false;
  std::vector<Connection> connections_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
};

}  // namespace

bool can_query() { return true; }

QueryResult run_query(const std::vector<QueryRun>& runs, const std::string& sql,
                      const QueryLimits& limits, const std::stop_token& stop) {
  const std::vector<QueryTable> tables = query_tables(runs);
  return Database(tables, limits, stop).run(sql);
}

}  // namespace shardscope
