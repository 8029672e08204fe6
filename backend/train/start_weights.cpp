#include "backend/train/start_weights.h"

#include <functional>
#include <optional>

#include "backend/train/parameter_storage.h"
#include "backend/train/random_weights.h"
#include "core/model/model_weights.h"

namespace shardscope {
namespace {

/// Fills `out` with elements `first`, `first` + 1, ... of a parameter.
using Source = std::function<void(ParameterId parameter, std::int64_t first, std::span<float> out)>;

void fill(const Model& model, const Executor& executor, const Source& source) {
  for (const UnitStorage& storage : unit_storages(executor, "parameters")) {
    const auto elements = static_cast<std::int64_t>(storage.elements.size());
    for (const StoredPart& part : stored_parts(model, *storage.unit, storage.first, elements)) {
      source(part.parameter, part.parameter_offset,
             storage.elements.subspan(static_cast<std::size_t>(part.offset),
                                      static_cast<std::size_t>(part.elements)));
    }
  }
}

}  // namespace

void load_start_weights(const Job& job, const Model& model, const Executor& executor) {
  if (job.weights == StartWeights::pretrained) {
    const ModelWeights weights(job.model, model);
    fill(model, executor, [&](ParameterId parameter, std::int64_t first, std::span<float> out) {
      weights.read(parameter, first, out);
    });
    return;
  }
  fill(model, executor, [&](ParameterId parameter, std::int64_t first, std::span<float> out) {
    draw(model.parameters[parameter.value], job.seed, first, out);
  });
}

}  // namespace shardscope
