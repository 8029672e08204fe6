// Small SQLite files, for tests of their readers.
#pragma once

#include <filesystem>
#include <string>

namespace shardscope::samples {

/// A database that SQL statements made; the file goes with the object.
class SqliteSample {
 public:
  explicit SqliteSample(const std::string& statements);
  ~SqliteSample();
  SqliteSample(const SqliteSample&) = delete;
  SqliteSample& operator=(const SqliteSample&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace shardscope::samples
