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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const shardscope::fuzz::MemoryFile file(data, size);
    const shardscope::PositionedFile archive(file.path());
    shardscope::find_archived_tensor(archive, 0, archive.bytes());
  } catch (const shardscope::Error&) {
  }
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
