// A text file that grows line by line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace shardscope {

/// Each line reaches the file whole, in one write; a reader never sees half of one. Failures throw
/// Error (ExitCode::outside) with the path and the system's reason.
class LineFile {
 public:
  enum class Existing : std::uint8_t { started_anew, continued };
  explicit LineFile(std::filesystem::path path, Existing existing = Existing::started_anew);
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&&) = delete;
  ~LineFile();

  void append(std::string_view line);

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace shardscope
