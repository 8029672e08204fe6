#include "traces/import/text_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace shardscope {
namespace {

std::filesystem::path temporary_folder() {
  std::error_code ignored;
  const auto folder = std::filesystem::temp_directory_path(ignored);
  return folder.empty() ? std::filesystem::path(".") : folder;
}

Error no_room(std::string_view doing, int error_number) {
  return Error(
      {.where = temporary_folder().string(),
       .what = fmt::format("cannot {} a temporary file for the decompressed trace, of which "
                           "at most nine tenths of the free room are taken: {}",
                           doing, std::strerror(error_number)),
       .way_out = "decompress the trace, or set TMPDIR to a folder with room",
       .code = ExitCode::outside});
}

}  // namespace

Bytes temporary_room() {
  std::error_code error;
  const auto space = std::filesystem::space(temporary_folder(), error);
  if (error) return Bytes{std::numeric_limits<std::int64_t>::max()};
  return Bytes{static_cast<std::int64_t>(space.available / 10 * 9)};
}

TextStore TextStore::of_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    throw Error(
        {.where = path.string(), .what = fmt::format("cannot be read: {}", std::strerror(errno))});
  }
  return {descriptor, false, Bytes{}};
}

TextStore TextStore::temporary(Bytes room) {
  std::string name = (temporary_folder() / "shardscope-trace-XXXXXX").string();
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) throw no_room("make", errno);
  ::unlink(name.c_str());
  return {descriptor, true, room};
}

TextStore::TextStore(TextStore&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      is_temporary_(other.is_temporary_),
      room_(other.room_) {}

TextStore::~TextStore() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void TextStore::append(std::string_view text) {
  const Bytes bytes{static_cast<std::int64_t>(text.size())};
  if (bytes > room_) throw no_room("write on to", ENOSPC);
  room_ = room_ - bytes;
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw no_room("write", errno);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string TextStore::read(std::uint64_t offset, std::size_t length) const {
  std::string text(length, '\0');
  std::size_t got = 0;
  while (got < length) {
    const ssize_t count =
        ::pread(descriptor_, text.data() + got, length - got, static_cast<off_t>(offset + got));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    got += static_cast<std::size_t>(count);
  }
  text.resize(got);
  return text;
}

}  // namespace shardscope
