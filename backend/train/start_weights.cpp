#include "backend/train/start_weights.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/base/core_binding.h"
#include "backend/train/random_weights.h"
#include "core/model/model_weights.h"

namespace shardscope {
namespace {

constexpr std::int64_t piece = 1 << 22;  // elements converted at once

/// Drawing is what takes the time of a start: seconds for every hundred million parameters.
int drawing_threads(const Job& job) {
  if (job.threads > 0) return job.threads;
  return std::max(1, cores_at_start() / job.ranks);
}

void fill_part(const UnitStorage& storage, const StoredPart& part, const ParameterSource& source) {
  std::vector<float> values(static_cast<std::size_t>(std::min(part.elements, piece)));
  for (std::int64_t done = 0; done < part.elements; done += piece) {
    const auto count = static_cast<std::size_t>(std::min(piece, part.elements - done));
    const std::span<float> some = std::span(values).first(count);
    source(part.parameter, part.parameter_offset + done, some);
    storage.write(part.offset + done, some);
  }
}

}  // namespace

ParameterSource start_weights(const Job& job, const Model& model) {
  if (job.weights == StartWeights::pretrained) {
    return [weights = std::make_shared<const ModelWeights>(job.model, model)](
               ParameterId parameter, std::int64_t first, std::span<float> out) {
      weights->read(parameter, first, out);
    };
  }
  return [&model, seed = job.seed, threads = drawing_threads(job)](
             ParameterId parameter, std::int64_t first, std::span<float> out) {
    draw_by_threads(model.parameters[parameter.value], seed, first, out, threads);
  };
}

void fill_storages(const ParameterSource& source, const Model& model,
                   const std::vector<UnitStorage>& storages) {
  for (const UnitStorage& storage : storages)
    for (const StoredPart& part :
         stored_parts(model, *storage.unit, storage.first, storage.elements))
      fill_part(storage, part, source);
}

void load_start_weights(const ParameterSource& source, const Model& model,
                        const Executor& executor) {
  for (const StoredParameters what : {StoredParameters::computed_with, StoredParameters::master})
    fill_storages(source, model, unit_storages(executor, what));
}

}  // namespace shardscope
