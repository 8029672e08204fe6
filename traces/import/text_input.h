// Bytes of a file, decompressed on the way: plain, gzip of any number of members, or tar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/quantities.h"

namespace shardscope {

/// A stream of bytes that is read once.
class TextInput {
 public:
  virtual ~TextInput() = default;
  /// Fills as much of `out` as there is; less than its size only at the end.
  virtual std::size_t read(std::span<char> out) = 0;
  /// What was wrong with the end ("a damaged gzip stream after 1234 bytes"); empty if nothing was.
  virtual std::string problem() const { return {}; }
  /// Bytes of the file that are behind us; for progress.
  virtual std::int64_t consumed_bytes() const = 0;
};

/// Opens a file; one that cannot be opened, and what is no regular file, throws Error: a pipe or a
/// device is read once and may never end, and a trace is read again by position.
std::unique_ptr<TextInput> open_bytes(const std::filesystem::path& path);

/// The bytes of `input`: decompressed if they begin like a gzip stream, else as they are.
std::unique_ptr<TextInput> decompressed(std::unique_ptr<TextInput> input);

/// Lets the first bytes be looked at before they are read.
class PeekedInput : public TextInput {
 public:
  explicit PeekedInput(std::unique_ptr<TextInput> input) : input_(std::move(input)) {}
  /// At most `bytes` of what comes next.
  std::string_view peek(std::size_t bytes);
  std::size_t read(std::span<char> out) override;
  std::string problem() const override { return input_->problem(); }
  std::int64_t consumed_bytes() const override { return input_->consumed_bytes(); }

 private:
  std::unique_ptr<TextInput> input_;
  std::string front_;
};

/// How a reading is watched.
struct Watch {
  std::string name;        ///< of the file, for errors
  std::int64_t max_bytes;  ///< of text; more is Error
  std::function<bool(std::int64_t)>
      is_over;  ///< asked every few MiB, with bytes of the file so far
};

/// Reads no further once it is over (Error, ExitCode::interrupted), or for more text than may be.
class WatchedInput : public TextInput {
 public:
  WatchedInput(std::unique_ptr<TextInput> input, Watch watch)
      : input_(std::move(input)), watch_(std::move(watch)) {}
  std::size_t read(std::span<char> out) override;
  std::string problem() const override { return input_->problem(); }
  std::int64_t consumed_bytes() const override { return input_->consumed_bytes(); }

 private:
  std::unique_ptr<TextInput> input_;
  Watch watch_;
  std::int64_t read_ = 0;
  std::int64_t asked_at_ = 0;  ///< of what is read
};

/// The regular files of a tar archive, one after the other.
class TarArchive {
 public:
  explicit TarArchive(std::unique_ptr<TextInput> input) : input_(std::move(input)) {}
  /// Name of the next file, whose bytes `content` then gives; none at the end of the archive.
  std::optional<std::string> next();
  /// Of the file that `next` named, as it lies in the archive.
  Bytes size() const { return size_; }
  /// Of the file that `next` named; it must be gone before `next` is called again.
  std::unique_ptr<TextInput> content();

  /// Do the first bytes look like a tar archive.
  static bool looks_like(std::string_view first_bytes);

 private:
  class Member;
  void skip(std::int64_t bytes);

  std::unique_ptr<TextInput> input_;
  Bytes size_;
  std::int64_t left_ = 0;     ///< of the current file
  std::int64_t padding_ = 0;  ///< behind it
};

}  // namespace shardscope
