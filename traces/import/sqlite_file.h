// An SQLite file of a stranger: read only, its plain tables only, within bounds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace shardscope {

/// The row at hand; columns by their place in what was asked for.
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  /// None where it is no integer.
  std::optional<std::int64_t> integer(int column) const;
  /// Empty where it is no text. Valid until the next row.
  std::string_view text(int column) const;

 private:
  sqlite3_stmt* statement_;
};

/// Column of a table; one that need not be there reads as null where it is not.
struct SqliteColumn {
  const char* name;
  bool is_required = true;
};

/// The file must not change while it is open. Views, triggers, virtual tables and computed columns
/// are not there; nothing in the schema is executed.
class SqliteFile {
 public:
  /// Throws Error, naming `name`, for a file that is no SQLite database.
  SqliteFile(const std::filesystem::path& path, std::string name);
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  /// Names of the plain tables, in their order.
  const std::vector<std::string>& tables() const { return tables_; }
  bool has_table(std::string_view table) const;
  /// Is the file shorter than it says: what is left of its tables can be read.
  bool is_cut() const { return is_cut_; }

  /// Calls `visit` for every row of `table`, in the table's own order; false stops. Returns what
  /// was wrong ("no column start", "damaged after 17 rows"); empty: nothing.
  std::string for_each_row(std::string_view table, std::span<const SqliteColumn> columns,
                           const std::function<bool(const SqliteRow&)>& visit);
  /// Rows of `table`; none where it cannot be read.
  std::optional<std::int64_t> row_count(std::string_view table);

 private:
  std::vector<std::string> columns_of(std::string_view table);
  void harden(std::int64_t file_bytes);
  /// False if the file does not let it.
  bool list_tables();

  std::string name_;
  sqlite3* database_ = nullptr;
  std::int64_t max_rows_ = 0;  ///< of a table: what the file has room for
  std::vector<std::string> tables_;
  bool is_cut_ = false;
};

}  // namespace shardscope
