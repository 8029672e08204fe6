#include "backend/train/save_model.h"

#include "backend/train/parameter_gather.h"
#include "core/base/precision.h"
#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/model/model_folder.h"

namespace shardscope {

void save_model(const std::filesystem::path& folder, const std::filesystem::path& source,
                Trainer& trainer, Communicator& world) {
  const Model& model = trainer.model();
  ParameterGather gather(model, trainer.unit_plans(), trainer.executor(), world);
  const Dtype stored = dtypes_of(trainer.schedule().strategy.precision).compute;
  // What is frozen has no master copy, so that its storage may be rounded.
  const auto is_as_at_start = [&](ParameterId parameter) {
    return stored != Dtype::float32 && !model.parameters[parameter.value].trainable;
  };
  if (world.rank() != 0) {
    for (const ParameterPiece& piece : pieces_to_write(model))
      if (!is_as_at_start(piece.parameter))
        gather.gather(piece.parameter, piece.first, piece.elements, {});
    return;
  }
  const JsonValue config = JsonValue::read_file(config_path(source), DuplicateKeys::last_wins);
  write_model_folder(folder, model, config,
                     [&](ParameterId parameter, std::int64_t first, std::span<float> out) {
                       if (is_as_at_start(parameter))
                         return trainer.start_weights()(parameter, first, out);
                       gather.gather(parameter, first, static_cast<std::int64_t>(out.size()), out);
                     });
}

}  // namespace shardscope
