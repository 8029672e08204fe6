// The text of an imported trace, kept where it does not fill the memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/quantities.h"

namespace shardscope {

/// Nine tenths of what is free where temporary files lie: others need room, too.
Bytes temporary_room();

/// Text that is read again by position: the file itself, or a copy of what was decompressed, in a
/// temporary file that has no name and goes with the last who needs it.
class TextStore {
 public:
  /// Reads from `path`, which must hold the text as it is.
  static TextStore of_file(const std::filesystem::path& path);
  /// An empty store in the folder for temporary files, for at most `room`; Error
  /// (ExitCode::outside) if that or the disk is full.
  static TextStore temporary(Bytes room = temporary_room());

  TextStore(TextStore&& other) noexcept;
  TextStore& operator=(TextStore&&) = delete;
  ~TextStore();

  void append(std::string_view text);
  /// At most `length` bytes from `offset` on; fewer where the text has no more.
  std::string read(std::uint64_t offset, std::size_t length) const;
  bool is_temporary() const { return is_temporary_; }

 private:
  TextStore(int descriptor, bool is_temporary, Bytes room)
      : descriptor_(descriptor), is_temporary_(is_temporary), room_(room) {}

  int descriptor_;
  bool is_temporary_;
  Bytes room_;  ///< still to be written to
};

}  // namespace shardscope
