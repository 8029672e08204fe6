#include "backend/checkpoint/foreign_checkpoint.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "backend/checkpoint/dcp_folder.h"
#include "backend/checkpoint/torch_files.h"
#include "backend/checkpoint/zero_folder.h"
#include "core/base/error.h"
#include "core/format/float_formats.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "core/format/safetensors.h"
#include "core/model/model_weights.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

// Names of accelerate 1.15, utils/constants.py and utils/fsdp_utils.py, and of transformers 5,
// trainer.py.
constexpr std::string_view sharded_model = "pytorch_model_fsdp_0";
constexpr std::string_view sharded_optimizer = "optimizer_0";
constexpr std::string_view full_model = "pytorch_model_fsdp.bin";
constexpr std::string_view pickled_model = "pytorch_model.bin";
constexpr std::array<std::string_view, 2> optimizer_files{"optimizer.bin", "optimizer.pt"};
/// What each rank has for itself: LOCAL_STATE_DICT, and use_dcp=False.
constexpr std::array<std::string_view, 2> parts_of_rank_0{"pytorch_model_fsdp_rank0.bin",
                                                          "pytorch_model_fsdp_0_rank0.bin"};

void add_dcp(const fs::path& folder, std::map<std::string, ForeignTensor>& tensors) {
  const auto reader = std::make_shared<DcpReader>(folder);
  for (const std::string& name : reader->names())
    tensors.insert_or_assign(
        name, ForeignTensor{.shape = reader->shape(name),
                            .read = [reader, name](std::int64_t first, std::span<float> out) {
                              reader->read(name, first, out);
                            }});
}

/// Returns the number of the file.
std::size_t add_torch_file(const std::shared_ptr<TorchFiles>& files, const fs::path& path,
                           std::map<std::string, ForeignTensor>& tensors) {
  const std::size_t file = files->open(path);
  add_state_dict(files, file, files->pickle(file).root(), tensors);
  return file;
}

void add_safetensors(const fs::path& folder, std::map<std::string, ForeignTensor>& tensors) {
  for (const fs::path& path : weight_files(folder)) {
    const auto file = std::make_shared<SafetensorsFile>(path);
    for (const SafetensorsTensor& tensor : file->header().tensors) {
      if (!has_floats(tensor.dtype)) continue;
      tensors.insert_or_assign(
          tensor.name,
          ForeignTensor{.shape = tensor.shape,
                        .read = [file, &tensor](std::int64_t first, std::span<float> out) {
                          file->read_floats(tensor, first, out);
                        }});
    }
  }
}

std::optional<fs::path> optimizer_file(const fs::path& folder) {
  for (const std::string_view name : optimizer_files)
    if (is_there(folder / name)) return folder / name;
  return std::nullopt;
}

/// Every rank leaves the state of its random numbers: accelerate and the Trainer.
int ranks_that_saved(const fs::path& folder) {
  int ranks = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("random_states_") || name.starts_with("rng_state_")) ++ranks;
  }
  return std::max(ranks, 1);
}

/// Steps as the Trainer counts them.
std::optional<std::int64_t> trainer_step(const fs::path& folder) {
  const fs::path path = folder / "trainer_state.json";
  if (!is_there(path)) return std::nullopt;
  return JsonValue::read_file(path, DuplicateKeys::last_wins)
      .at("global_step")
      .integer(0, most_steps);
}

void add_model(const fs::path& folder, const std::shared_ptr<TorchFiles>& files,
               ForeignCheckpoint& into) {
  for (const std::string_view part : parts_of_rank_0)
    if (is_there(folder / part)) {
      throw Error({.where = (folder / part).string(),
                   .what = "is the part of one rank, which is not read",
                   .way_out = "save with SHARDED_STATE_DICT and torch.distributed.checkpoint, or "
                              "with FULL_STATE_DICT"});
    }
  if (is_dcp_folder(folder / sharded_model)) {
    into.strategy = "fsdp";
    return add_dcp(folder / sharded_model, into.tensors);
  }
  if (is_there(folder / full_model)) {
    into.strategy = "fsdp";
    add_torch_file(files, folder / full_model, into.tensors);
    return;
  }
  if (has_weights(folder)) return add_safetensors(folder, into.tensors);
  add_torch_file(files, folder / pickled_model, into.tensors);
}

void add_optimizer(const fs::path& folder, const std::shared_ptr<TorchFiles>& files,
                   ForeignCheckpoint& into) {
  if (is_dcp_folder(folder / sharded_optimizer))
    return add_dcp(folder / sharded_optimizer, into.tensors);
  const auto path = optimizer_file(folder);
  if (!path) return;
  const std::size_t file = add_torch_file(files, *path, into.tensors);
  const Pickle& pickle = files->pickle(file);
  into.group_sizes = group_sizes_of(pickle, pickle.root());
}

bool is_accelerate_folder(const fs::path& folder) {
  if (is_dcp_folder(folder / sharded_model) || is_there(folder / full_model)) return true;
  for (const std::string_view part : parts_of_rank_0)
    if (is_there(folder / part)) return true;
  return optimizer_file(folder) && (has_weights(folder) || is_there(folder / pickled_model));
}

ForeignCheckpoint open_accelerate(const fs::path& folder) {
  ForeignCheckpoint opened{.folder = folder,
                           .format = "accelerate",
                           .world = ranks_that_saved(folder),
                           .step = trainer_step(folder)};
  const auto files = std::make_shared<TorchFiles>();
  add_model(folder, files, opened);
  add_optimizer(folder, files, opened);
  return opened;
}

}  // namespace

bool is_foreign_checkpoint(const fs::path& folder) {
  return is_dcp_folder(folder) || is_zero_folder(folder) || is_accelerate_folder(folder);
}

ForeignCheckpoint open_foreign(const fs::path& folder) {
  if (is_zero_folder(folder)) return open_zero(folder);
  if (!is_dcp_folder(folder)) return open_accelerate(folder);
  ForeignCheckpoint opened{.folder = folder, .format = "dcp"};
  add_dcp(folder, opened.tensors);
  return opened;
}

}  // namespace shardscope
