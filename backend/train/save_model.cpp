#include "backend/train/save_model.h"

#include "backend/train/parameter_gather.h"
#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/model/model_folder.h"

namespace shardscope {

void save_model(const std::filesystem::path& folder, const std::filesystem::path& source,
                const Model& model, Executor& executor, Communicator& world) {
  ParameterGather gather(model, executor, world);
  if (world.rank() != 0) {
    for (const ParameterPiece& piece : pieces_to_write(model))
      gather.gather(piece.parameter, piece.first, piece.elements, {});
    return;
  }
  const JsonValue config = JsonValue::read_file(config_path(source), DuplicateKeys::last_wins);
  write_model_folder(folder, model, config,
                     [&](ParameterId parameter, std::int64_t first, std::span<float> out) {
                       gather.gather(parameter, first, static_cast<std::int64_t>(out.size()), out);
                     });
}

}  // namespace shardscope
