// Any bytes as the metadata of a checkpoint of PyTorch's, and as an archive of torch.save: either
// an Error, or tensors that can be read.
#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "backend/checkpoint/checksum.h"
#include "backend/checkpoint/dcp_folder.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "tests/fuzz/memory_file.h"

namespace {

/// One folder for all inputs of this process, gone with it.
const std::filesystem::path& folder() {
  static const std::filesystem::path path = [] {
    auto made = std::filesystem::temp_directory_path() /
                ("shardscope_fuzz_dcp_" + std::to_string(::getpid()));
    shardscope::create_folder(made);
    std::atexit([] { std::filesystem::remove_all(folder()); });
    return made;
  }();
  return path;
}

void write(const char* name, std::string_view bytes) {
  FILE* const file = std::fopen((folder() / name).c_str(), "wb");
  if (!file) std::abort();
  if (!bytes.empty()) std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

/// With the checksum that the pickle has after it was changed, so that it is read. Places in the
/// directory: APPNOTE.TXT 4.3.12.
std::string with_right_checksum(std::string bytes) {
  constexpr std::size_t entry_bytes = 46, local_bytes = 30, names = 4;
  for (std::size_t at = bytes.find("PK\x01\x02"); at != std::string::npos;
       at = bytes.find("PK\x01\x02", at + 1)) {
    if (bytes.size() - at < entry_bytes) break;
    const std::size_t size = number_at(bytes, at + 24), local = number_at(bytes, at + 42);
    if (bytes.compare(at + entry_bytes, std::string_view("archive/data.pkl").size(),
                      "archive/data.pkl") != 0 ||
        local > bytes.size() || bytes.size() - local < local_bytes)
      continue;
    const std::uint32_t lengths = number_at(bytes, local + local_bytes - names);
    const std::size_t begin = local + local_bytes + (lengths & 0xffff) + (lengths >> 16);
    if (begin > bytes.size() || size > bytes.size() - begin) continue;
    const std::uint32_t crc = shardscope::crc32_of(std::string_view(bytes).substr(begin, size));
    for (std::size_t i = 0; i < 4; ++i)
      bytes[at + 16 + i] = static_cast<char>(crc >> (8 * i) & 0xff);
  }
  return bytes;
}

void read_archive(std::string_view bytes) {
  try {
    const shardscope::fuzz::MemoryFile file(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                            bytes.size());
    const shardscope::PositionedFile archive(file.path());
    shardscope::find_archived_tensor(archive, 0, archive.bytes());
  } catch (const shardscope::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_archive(bytes);
  read_archive(with_right_checksum(std::string(bytes)));
  // The metadata's archives lie in files of the same bytes.
  write(".metadata", bytes);
  write("__0_0.distcp", bytes);
  write("__1_0.distcp", bytes);
  try {
    shardscope::DcpReader reader(folder());
    for (const std::string& name : reader.names()) {
      constexpr std::int64_t most = 1 << 16;
      std::vector<float> values(
          static_cast<std::size_t>(std::min(most, shardscope::elements_of(reader.shape(name)))));
      reader.read(name, 0, values);
    }
  } catch (const shardscope::Error&) {
  }
  return 0;
}
