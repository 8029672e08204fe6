#include "traces/import/sqlite_file.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <system_error>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::int64_t least_row_bytes = 4;  // of a cell in a page and its pointer
constexpr std::int64_t max_value_bytes = 1 << 28;
constexpr int steps_between_checks = 1 << 20;  // of SQLite's virtual machine
constexpr std::size_t max_tables = 10'000;

struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

Statement prepare(sqlite3* database, const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(database, sql.c_str(), static_cast<int>(sql.size()) + 1, &statement, nullptr);
  return Statement(statement);
}

/// `path` as a URI, so that SQLite neither locks the file nor looks for others beside it.
std::string uri_of(const std::filesystem::path& path) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                          (c >= 'a' && c <= 'z') || c == '/' || c == '.' || c == '_' || c == '-';
    uri += is_plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return uri + "?mode=ro&immutable=1";
}

/// A name as SQL; none of a stranger's that would need more than quotes.
std::optional<std::string> quoted(std::string_view name) {
  if (name.find('"') != name.npos || name.find('\0') != name.npos) return std::nullopt;
  return fmt::format("\"{}\"", name);
}

/// Stops a statement that takes more steps than reading the file would.
struct StepBudget {
  std::int64_t checks_left = 0;
};

int count_steps(void* budget) { return --static_cast<StepBudget*>(budget)->checks_left < 0; }

}  // namespace

std::optional<std::int64_t> SqliteRow::integer(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_int64(statement_, column);
}

std::string_view SqliteRow::text(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_TEXT) return {};
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

SqliteFile::SqliteFile(const std::filesystem::path& path, std::string name)
    : name_(std::move(name)) {
  std::error_code ignored;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, ignored));
  const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_PRIVATECACHE;
  const int status = sqlite3_open_v2(uri_of(path).c_str(), &database_, flags, nullptr);
  if (status == SQLITE_OK) {
    max_rows_ = size / least_row_bytes;
    harden(size);
    if (!list_tables()) {
      // Without this SQLite refuses a file that is shorter than it says; nothing is ever written.
      sqlite3_db_config(database_, SQLITE_DBCONFIG_DEFENSIVE, 0, nullptr);
      sqlite3_exec(database_, "PRAGMA writable_schema=ON", nullptr, nullptr, nullptr);
      list_tables();
      is_cut_ = true;
    }
  }
  if (!tables_.empty()) return;
  const std::string why = status == SQLITE_OK ? "no table can be read" : sqlite3_errstr(status);
  sqlite3_close(database_);
  throw Error({.where = name_, .what = "an SQLite file that cannot be read: " + why});
}

SqliteFile::~SqliteFile() { sqlite3_close(database_); }

void SqliteFile::harden(std::int64_t file_bytes) {
  const auto longest = static_cast<int>(std::min(file_bytes, max_value_bytes));
  sqlite3_db_config(database_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(database_, SQLITE_LIMIT_LENGTH, longest);
  sqlite3_limit(database_, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(database_, SQLITE_LIMIT_WORKER_THREADS, 0);
  sqlite3_exec(database_, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA cache_size=-8192",
               nullptr, nullptr, nullptr);
}

bool SqliteFile::list_tables() {
  tables_.clear();
  // A virtual table has no page of its own.
  const Statement statement =
      prepare(database_, "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0");
  if (!statement) return false;
  int status = SQLITE_ROW;
  while (tables_.size() < max_tables && (status = sqlite3_step(statement.get())) == SQLITE_ROW)
    tables_.emplace_back(SqliteRow(statement.get()).text(0));
  std::sort(tables_.begin(), tables_.end());
  return status == SQLITE_DONE || status == SQLITE_ROW;
}

bool SqliteFile::has_table(std::string_view table) const {
  return std::find(tables_.begin(), tables_.end(), table) != tables_.end();
}

std::vector<std::string> SqliteFile::columns_of(std::string_view table) {
  std::vector<std::string> columns;
  const auto name = quoted(table);
  if (!name) return columns;
  const Statement statement = prepare(database_, fmt::format("PRAGMA table_xinfo({})", *name));
  constexpr int name_column = 1, hidden_column = 6;
  while (statement && sqlite3_step(statement.get()) == SQLITE_ROW) {
    const SqliteRow row(statement.get());
    if (row.integer(hidden_column) == 0) columns.emplace_back(row.text(name_column));
  }
  return columns;
}

std::string SqliteFile::for_each_row(std::string_view table, std::span<const SqliteColumn> columns,
                                     const std::function<bool(const SqliteRow&)>& visit) {
  const std::vector<std::string> present = columns_of(table);
  std::string list;
  for (const SqliteColumn& column : columns) {
    const bool is_there = std::find(present.begin(), present.end(), column.name) != present.end();
    if (!is_there && column.is_required) return fmt::format("no column {}", column.name);
    list += (list.empty() ? "" : ", ") + (is_there ? *quoted(column.name) : std::string("NULL"));
  }
  if (list.empty()) list = "1";
  const auto name = quoted(table);
  const Statement statement =
      prepare(database_, fmt::format("SELECT {} FROM {} NOT INDEXED", list, name.value_or("\"\"")));
  if (!statement) return sqlite3_errmsg(database_);
  StepBudget budget{.checks_left = 2 + max_rows_ * 256 / steps_between_checks};
  sqlite3_progress_handler(database_, steps_between_checks, count_steps, &budget);
  int status = SQLITE_ROW;
  std::int64_t rows = 0;
  while (rows <= max_rows_ && (status = sqlite3_step(statement.get())) == SQLITE_ROW) {
    ++rows;
    if (!visit(SqliteRow(statement.get()))) break;
  }
  sqlite3_progress_handler(database_, 0, nullptr, nullptr);
  if (rows > max_rows_) return fmt::format("more rows than the file has room for: {}", max_rows_);
  if (status == SQLITE_DONE || status == SQLITE_ROW) return {};
  return fmt::format("{} after {} rows", sqlite3_errstr(status), rows);
}

std::optional<std::int64_t> SqliteFile::row_count(std::string_view table) {
  std::int64_t rows = 0;
  const std::string problem = for_each_row(table, {}, [&](const SqliteRow&) {
    ++rows;
    return true;
  });
  return problem.empty() ? std::optional(rows) : std::nullopt;
}

}  // namespace shardscope
