#include "backend/checkpoint/rewrite.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backend/checkpoint/checkpoint_writer.h"
#include "backend/checkpoint/full_checkpoint.h"
#include "backend/checkpoint/new_folder.h"
#include "backend/checkpoint/streamed_file.h"
#include "core/format/atomic_file.h"
#include "core/model/read_model.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

std::vector<StreamedTensor> part_of(Checkpoint& checkpoint, int rank, int world) {
  std::vector<StreamedTensor> part;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    const std::int64_t each = (tensor.elements() + world - 1) / world;
    const std::int64_t first = std::min(rank * each, tensor.elements());
    const std::int64_t elements = std::min(each, tensor.elements() - first);
    if (elements == 0) continue;
    part.push_back(
        {.key = {.key = tensor.name,
                 .dtype = tensor.dtype,
                 .crc32 = {},
                 .pieces = {{.tensor = tensor.name,
                             .shape = tensor.shape,
                             .first = first,
                             .elements = elements}}},
         .shape = {elements},
         .values = [&checkpoint, name = tensor.name, first](std::int64_t at, std::span<float> out) {
           checkpoint.read(name, first + at, out);
         }});
  }
  return part;
}

}  // namespace

void reshard(Checkpoint& checkpoint, int world, const fs::path& place) {
  NewFolder folder(place);
  CheckpointIndex index = checkpoint.index();
  index.kind = CheckpointKind::sharded;
  index.files.clear();
  for (int rank = 0; rank < world; ++rank)
    index.files.push_back(
        stream_file(folder.path(), shard_file_name(rank, world), part_of(checkpoint, rank, world)));
  write_atomically(folder.path() / "config.json", read_whole(checkpoint.config()));
  folder.take_place(index);
}

void merge(Checkpoint& checkpoint, const fs::path& place) {
  NewFolder folder(place);
  const fs::path config = checkpoint.config();
  Model model = read_model(config, {.class_name = {}, .dtype = Dtype::float32});
  CheckpointIndex index = checkpoint.index();
  index.kind = CheckpointKind::full;
  std::vector<WholeState> states;
  for (const std::string& state : checkpoint.states()) {
    // Of a frozen parameter the optimizer keeps nothing.
    if (state != parameters_state)
      for (Parameter& parameter : model.parameters)
        parameter.trainable = checkpoint.find(tensor_name(state, parameter.name)).has_value();
    states.push_back(
        {.name = state,
         .source = [&, state](ParameterId parameter, std::int64_t first, std::span<float> out) {
           checkpoint.read(tensor_name(state, model.parameters[parameter.value].name), first, out);
         }});
  }
  index.files = write_whole_states(folder.path(), model,
                                   JsonValue::read_file(config, DuplicateKeys::last_wins), states);
  folder.take_place(index);
}

}  // namespace shardscope
