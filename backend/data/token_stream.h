// Token data of a job: text as bytes, nanoGPT's headerless uint16 files and llm.c's .bin files,
// read as one stream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/native/job.h"

namespace shardscope {

/// All tokens of a job's data, one file after the other in the order given; folders by path,
/// recursively.
///
/// The stream is read as a circle of `size() - 1` inputs: the input at global position p is token p
/// mod (size() - 1) and its target is the token behind it. So every pair stands in the data, and a
/// position means the same for every batch size and world size.
class TokenStream {
 public:
  /// `format` automatic: a file ending in .bin holds tokens (llm.c's header where its magic stands,
  /// else bare uint16), all else is text, one token a byte. Below a folder, names that begin with a
  /// dot and symbolic links are left out; what cannot be read there is skipped with a note. Throws
  /// Error for a path that is missing, empty or malformed.
  static TokenStream open(const std::vector<std::filesystem::path>& paths, TokenFormat format);

  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;
  ~TokenStream();

  std::int64_t size() const { return size_; }
  /// Skipped files, one line each.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Throws Error unless the stream holds `inputs` + 1 tokens.
  void require_batch(std::int64_t inputs) const;
  /// Throws Error naming the file for a token id not below `vocabulary` among the `count` positions
  /// from `position` on.
  void require_vocabulary(std::int64_t position, std::int64_t count, std::int64_t vocabulary) const;
  /// Tokens `begin`, `begin` + 1, ... of the stream, going on at its start behind its end.
  void copy(std::int64_t begin, std::span<std::int32_t> out) const;
  /// Inputs at `position`, `position` + 1, ... and their targets; both spans have the same size.
  void read(std::int64_t position, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const;

 private:
  class File;
  TokenStream();
  std::size_t file_at(std::int64_t offset) const;
  void add_file(const std::filesystem::path& path, TokenFormat format);
  void add_folder(const std::filesystem::path& folder, TokenFormat format);
  [[noreturn]] void refuse_token(std::int64_t offset, std::int32_t token,
                                 std::int64_t vocabulary) const;

  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::int64_t> begins_;  ///< global token offset of each file
  std::vector<std::string> notes_;
  std::int64_t size_ = 0;
  std::int64_t text_bytes_ = 0;  ///< held in memory
};

/// Whether `TokenStream::open` reads any of it as text; looks at names alone.
bool reads_text(const std::vector<std::filesystem::path>& paths, TokenFormat format);

}  // namespace shardscope
