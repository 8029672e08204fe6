#include "tests/traces/sqlite_text.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>

namespace shardscope::samples {

SqliteSample::SqliteSample(const std::string& statements) {
  std::string name = (std::filesystem::temp_directory_path() / "sample-XXXXXX").string();
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0) std::abort();
  ::close(descriptor);
  path_ = name;
  sqlite3* database = nullptr;
  if (sqlite3_open(name.c_str(), &database) != SQLITE_OK ||
      sqlite3_exec(database, statements.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    std::abort();
  sqlite3_close(database);
}

SqliteSample::~SqliteSample() { std::filesystem::remove(path_); }

}  // namespace shardscope::samples
