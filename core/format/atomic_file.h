// Files that are never half written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace shardscope {

/// A file under construction: a temporary beside `path` that takes its place on `commit`. Dropped
/// without a commit, or after an error, it leaves nothing behind and an older file stands as it
/// was. A device or pipe is written directly. Every failure throws Error (ExitCode::outside) with
/// the path and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  /// fsync, rename, fsync of the folder.
  void commit();

 private:
  void begin_to_store();
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  ///< empty: written directly
  int descriptor_ = -1;
  std::int64_t written_ = 0, storing_ = 0;  ///< bytes; those that the disk has begun with
};

/// Writes `path` whole through an AtomicFile.
void write_atomically(const std::filesystem::path& path, std::string_view content);

/// Reads a whole file of at most `max_bytes`; Error (ExitCode::bad_input) names the path and the
/// reason.
std::string read_whole(const std::filesystem::path& path,
                       std::int64_t max_bytes = std::int64_t{1} << 32);

/// The folder exists afterwards, or Error (ExitCode::outside).
void create_folder(const std::filesystem::path& path);

}  // namespace shardscope
