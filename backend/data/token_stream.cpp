#include "backend/data/token_stream.h"

#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "backend/data/llm_c_header.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/mapped_file.h"

namespace shardscope {
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t max_text_bytes = std::int64_t{4} << 30;

bool ends_in_bin(const fs::path& path) { return path.extension() == ".bin"; }

bool starts_with_llm_c_magic(std::span<const std::byte> bytes) {
  std::int32_t magic = 0;
  if (bytes.size() < sizeof magic) return false;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == llm_c_magic;
}

/// Regular files below `folder`, by path; what cannot be opened on the way is noted.
std::vector<fs::path> files_below(const fs::path& folder, std::vector<std::string>& notes) {
  std::vector<fs::path> found;
  std::vector<fs::path> open{folder};
  while (!open.empty()) {
    const fs::path here = std::move(open.back());
    open.pop_back();
    std::error_code failed;
    for (fs::directory_iterator entry(here, failed), end; !failed && entry != end;
         entry.increment(failed)) {
      std::error_code status;
      if (entry->path().filename().string().starts_with('.') || entry->is_symlink(status)) continue;
      if (entry->is_directory(status)) open.push_back(entry->path());
      if (entry->is_regular_file(status)) found.push_back(entry->path());
    }
    if (failed) notes.push_back(fmt::format("{}: skipped, {}", here.string(), failed.message()));
  }
  std::ranges::sort(found, {}, [](const fs::path& path) { return path.string(); });
  return found;
}

/// Among text, a .bin file is somebody's binary and not tokens.
TokenFormat format_below(const std::vector<fs::path>& found, TokenFormat format) {
  const bool has_tokens = !found.empty() && std::ranges::all_of(found, ends_in_bin);
  return format == TokenFormat::automatic && !has_tokens ? TokenFormat::text : format;
}

std::span<const std::byte> uint16_payload(const fs::path& path, std::span<const std::byte> bytes) {
  if (bytes.size() % 2 == 0) return bytes;
  throw Error(
      {.where = path.string(),
       .what = fmt::format("{} bytes are not a whole number of uint16 tokens", bytes.size()),
       .way_out = "set \"tokens\" to \"text\" if it is text"});
}

std::span<const std::byte> llm_c_payload(const fs::path& path, std::span<const std::byte> bytes) {
  LlmCHeader header{};
  if (bytes.size() < sizeof header) {
    throw Error({.where = path.string(),
                 .what = fmt::format("{} bytes are too few for llm.c's header of {} bytes",
                                     bytes.size(), sizeof header),
                 .way_out = "set \"tokens\" to \"uint16\" or \"text\""});
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header[0] != llm_c_magic || header[1] != llm_c_version) {
    throw Error({.where = path.string(),
                 .what = fmt::format("magic {} version {} is not llm.c's {} version {}", header[0],
                                     header[1], llm_c_magic, llm_c_version),
                 .way_out = "set \"tokens\" to \"uint16\" if it has no header"});
  }
  const auto payload = bytes.subspan(sizeof header);
  if (header[2] < 0 || payload.size() != 2 * static_cast<std::size_t>(header[2])) {
    throw Error({.where = path.string(),
                 .what = fmt::format("the header says {} tokens, but {} bytes of tokens follow",
                                     header[2], payload.size()),
                 .way_out = "write the file again, it is cut off or damaged"});
  }
  return payload;
}

}  // namespace

/// One file's tokens: a text's bytes in memory (the text may be edited meanwhile), a token file
/// mapped.
class TokenStream::File {
 public:
  static std::unique_ptr<File> open(const fs::path& path, TokenFormat format,
                                    std::int64_t max_text_bytes) {
    if (format == TokenFormat::text || (format == TokenFormat::automatic && !ends_in_bin(path))) {
      return std::unique_ptr<File>(new File(path, read_whole(path, max_text_bytes)));
    }
    return std::unique_ptr<File>(new File(path, MappedFile(path), format));
  }

  const fs::path& path() const { return path_; }
  std::int64_t size() const { return static_cast<std::int64_t>(payload_.size()) / token_bytes_; }
  std::int64_t text_bytes() const { return static_cast<std::int64_t>(text_.size()); }

  void copy(std::int64_t begin, std::span<std::int32_t> out) const {
    const std::byte* from = payload_.data() + begin * token_bytes_;
    if (token_bytes_ == 1) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::to_integer<std::int32_t>(from[i]);
      return;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::uint16_t token = 0;
      std::memcpy(&token, from + 2 * i, sizeof token);
      out[i] = token;
    }
  }

 private:
  File(fs::path path, std::string text)
      : path_(std::move(path)),
        text_(std::move(text)),
        payload_(std::as_bytes(std::span(text_))),
        token_bytes_(1) {}

  File(fs::path path, MappedFile mapping, TokenFormat format)
      : path_(std::move(path)), mapping_(std::move(mapping)) {
    const auto bytes = mapping_->bytes();
    const bool with_header = format == TokenFormat::llm_c ||
                             (format == TokenFormat::automatic && starts_with_llm_c_magic(bytes));
    payload_ = with_header ? llm_c_payload(path_, bytes) : uint16_payload(path_, bytes);
  }

  fs::path path_;
  std::string text_;
  std::optional<MappedFile> mapping_;
  std::span<const std::byte> payload_;
  std::int64_t token_bytes_ = 2;
};

TokenStream::TokenStream() = default;
TokenStream::TokenStream(TokenStream&&) noexcept = default;
TokenStream& TokenStream::operator=(TokenStream&&) noexcept = default;
TokenStream::~TokenStream() = default;

TokenStream TokenStream::open(const std::vector<fs::path>& paths, TokenFormat format) {
  TokenStream stream;
  for (const fs::path& path : paths) {
    std::error_code status;
    const bool folder = fs::is_directory(path, status);
    if (!folder && !fs::is_regular_file(path, status)) {
      throw Error({.where = path.string(),
                   .what = status ? status.message() : "neither a regular file nor a folder",
                   .way_out = "give an existing text or token file, or a folder"});
    }
    const std::int64_t before = stream.size_;
    folder ? stream.add_folder(path, format) : stream.add_file(path, format);
    if (stream.size_ == before) {
      throw Error({.where = path.string(),
                   .what = "holds no tokens",
                   .way_out = "give a file or folder with text in it"});
    }
  }
  return stream;
}

void TokenStream::add_file(const fs::path& path, TokenFormat format) {
  auto file = File::open(path, format, max_text_bytes - text_bytes_);
  if (file->size() == 0) return;
  text_bytes_ += file->text_bytes();
  begins_.push_back(size_);
  size_ += file->size();
  files_.push_back(std::move(file));
}

void TokenStream::add_folder(const fs::path& folder, TokenFormat format) {
  const std::vector<fs::path> found = files_below(folder, notes_);
  const TokenFormat one = format_below(found, format);
  for (const fs::path& path : found) {
    if (::access(path.c_str(), R_OK) != 0) {
      notes_.push_back(fmt::format("{}: skipped, {}", path.string(), std::strerror(errno)));
      continue;
    }
    add_file(path, one);
  }
}

void TokenStream::require_batch(std::int64_t inputs) const {
  if (size_ > inputs) return;
  throw Error(
      {.where = files_.empty() ? "data" : files_.front()->path().string(),
       .what = fmt::format(
           "{} tokens in {} file{} are too few for one batch of {} inputs and a last target", size_,
           files_.size(), files_.size() == 1 ? "" : "s", inputs),
       .way_out = "give more data, or a smaller batch or seq"});
}

void TokenStream::require_vocabulary(std::int64_t position, std::int64_t count,
                                     std::int64_t vocabulary) const {
  std::vector<std::int32_t> part(4096);
  for (std::int64_t done = 0; done < count;) {
    const auto n = static_cast<std::size_t>(std::min<std::int64_t>(count - done, 4096));
    const std::int64_t begin = (position + done) % size_;
    copy(begin, std::span(part).first(n));
    const auto worst =
        std::ranges::find_if(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n),
                             [&](std::int32_t token) { return token >= vocabulary; });
    if (worst != part.begin() + static_cast<std::ptrdiff_t>(n)) {
      refuse_token((begin + (worst - part.begin())) % size_, *worst, vocabulary);
    }
    done += static_cast<std::int64_t>(n);
  }
}

void TokenStream::refuse_token(std::int64_t offset, std::int32_t token,
                               std::int64_t vocabulary) const {
  const std::size_t file = file_at(offset);
  throw Error({.where = files_[file]->path().string(),
               .what = fmt::format("token {} at offset {} is outside the model's vocabulary of {}",
                                   token, offset - begins_[file], vocabulary),
               .way_out = "use the tokenizer's model, or encode the text again"});
}

void TokenStream::read(std::int64_t position, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const {
  const std::int64_t circle = size_ - 1;
  for (std::size_t done = 0; done < inputs.size();) {
    const std::int64_t begin = (position + static_cast<std::int64_t>(done)) % circle;
    const auto n = static_cast<std::size_t>(
        std::min<std::int64_t>(static_cast<std::int64_t>(inputs.size() - done), circle - begin));
    copy(begin, inputs.subspan(done, n));
    copy(begin + 1, targets.subspan(done, n));
    done += n;
  }
}

std::size_t TokenStream::file_at(std::int64_t offset) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(begins_, offset) - begins_.begin()) - 1;
}

void TokenStream::copy(std::int64_t begin, std::span<std::int32_t> out) const {
  std::size_t file = file_at(begin);
  std::int64_t from = begin - begins_[file];
  while (!out.empty()) {
    const auto n = static_cast<std::size_t>(
        std::min<std::int64_t>(static_cast<std::int64_t>(out.size()), files_[file]->size() - from));
    files_[file]->copy(from, out.first(n));
    out = out.subspan(n);
    file = (file + 1) % files_.size();
    from = 0;
  }
}

bool reads_text(const std::vector<fs::path>& paths, TokenFormat format) {
  if (format != TokenFormat::automatic) return format == TokenFormat::text;
  return std::ranges::any_of(paths, [](const fs::path& path) {
    std::error_code status;
    std::vector<std::string> notes;
    if (!fs::is_directory(path, status)) return !ends_in_bin(path);
    return format_below(files_below(path, notes), TokenFormat::automatic) == TokenFormat::text;
  });
}

}  // namespace shardscope
