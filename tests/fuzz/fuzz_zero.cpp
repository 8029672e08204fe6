// Any bytes as the files of a DeepSpeed checkpoint, and as those of accelerate: either an Error, or
// tensors that can be read. An input is a byte that says which file it is, then its content; the
// others are real.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "backend/checkpoint/foreign_checkpoint.h"
#include "backend/checkpoint/foreign_reader.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"

namespace {

namespace fs = std::filesystem;

const fs::path& recorded() {
  static const fs::path path = fs::path(SOURCE_ROOT) / "tests/data/pytorch_checkpoints";
  return path;
}

struct Target {
  const char* folder;
  const char* file;
};
constexpr std::array<Target, 8> targets{
    {{"deepspeed_zero2", "global_step3/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"},
     {"deepspeed_zero2", "global_step3/mp_rank_00_model_states.pt"},
     {"deepspeed_zero3", "global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt"},
     {"deepspeed_zero3_frozen", "global_step3/zero_pp_rank_0_mp_rank_00_model_states.pt"},
     {"deepspeed_zero1", "latest"},
     {"accelerate_fsdp2_full", "optimizer.bin"},
     {"accelerate_fsdp2_full", "pytorch_model_fsdp.bin"},
     {"accelerate_ddp", "optimizer.bin"}}};

/// A copy of all folders for this process, gone with it.
const fs::path& copies() {
  static const fs::path path = [] {
    auto made = fs::temp_directory_path() / ("shardscope_fuzz_zero_" + std::to_string(::getpid()));
    fs::copy(recorded(), made, fs::copy_options::recursive);
    std::atexit([] { fs::remove_all(copies()); });
    return made;
  }();
  return path;
}

void write(const fs::path& path, std::string_view bytes) {
  FILE* const file = std::fopen(path.c_str(), "wb");
  if (!file) std::abort();
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

void read_all(const fs::path& folder) {
  if (!shardscope::is_foreign_checkpoint(folder)) return;
  const shardscope::ForeignCheckpoint opened = shardscope::open_foreign(folder);
  for (const auto& [name, tensor] : opened.tensors) {
    constexpr std::int64_t most = 1 << 16;
    std::vector<float> values(
        static_cast<std::size_t>(std::min(most, shardscope::elements_of(tensor.shape))));
    tensor.read(0, values);
  }
  const shardscope::ForeignReader reader(shardscope::open_foreign(folder),
                                         {.config = copies() / "config.json"});
  reader.tensors();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Target& target = targets[data[0] % targets.size()];
  const fs::path folder = copies() / target.folder;
  write(folder / target.file, {reinterpret_cast<const char*>(data) + 1, size - 1});
  try {
    read_all(folder);
  } catch (const shardscope::Error&) {
  }
  fs::copy_file(recorded() / target.folder / target.file, folder / target.file,
                fs::copy_options::overwrite_existing);
  return 0;
}
