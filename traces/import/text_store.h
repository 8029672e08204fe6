// The text of an imported trace, kept where it does not fill the memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace shardscope {

/// Text that is read again by position: the file itself, or a copy of what was decompressed, in a
/// temporary file that has no name and goes with the last who needs it.
class TextStore {
 public:
  /// Reads from `path`, which must hold the text as it is.
  static TextStore of_file(const std::filesystem::path& path);
  /// An empty store in the folder for temporary files; Error (ExitCode::outside) if there is no
  /// room.
  static TextStore temporary();

  TextStore(TextStore&& other) noexcept;
  TextStore& operator=(TextStore&&) = delete;
  ~TextStore();

  void append(std::string_view text);
  /// At most `length` bytes from `offset` on; fewer where the text has no more.
  std::string read(std::uint64_t offset, std::size_t length) const;
  bool is_temporary() const { return is_temporary_; }

 private:
  TextStore(int descriptor, bool is_temporary)
      : descriptor_(descriptor), is_temporary_(is_temporary) {}

  int descriptor_;
  bool is_temporary_;
};

}  // namespace shardscope
