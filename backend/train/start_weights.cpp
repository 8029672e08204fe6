#include "backend/train/start_weights.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "backend/train/parameter_storage.h"
#include "backend/train/random_weights.h"
#include "core/model/model_weights.h"

namespace shardscope {
namespace {

/// Fills `out` with elements `first`, `first` + 1, ... of a parameter.
using Source = std::function<void(ParameterId parameter, std::int64_t first, std::span<float> out)>;

constexpr std::int64_t piece = 1 << 20;  // elements converted at once

/// Drawing is what takes the time of a start: seconds for every hundred million parameters.
int drawing_threads(const Job& job) {
  if (job.threads > 0) return job.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / job.ranks);
}

void fill_part(const UnitStorage& storage, const StoredPart& part, const Source& source) {
  std::vector<float> values(static_cast<std::size_t>(std::min(part.elements, piece)));
  for (std::int64_t done = 0; done < part.elements; done += piece) {
    const auto count = static_cast<std::size_t>(std::min(piece, part.elements - done));
    const std::span<float> some = std::span(values).first(count);
    source(part.parameter, part.parameter_offset + done, some);
    storage.write(part.offset + done, some);
  }
}

void fill(const Model& model, const Executor& executor, const Source& source) {
  for (const StoredParameters what : {StoredParameters::computed_with, StoredParameters::master})
    for (const UnitStorage& storage : unit_storages(executor, what))
      for (const StoredPart& part :
           stored_parts(model, *storage.unit, storage.first, storage.elements))
        fill_part(storage, part, source);
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
  const int threads = drawing_threads(job);
  fill(model, executor, [&](ParameterId parameter, std::int64_t first, std::span<float> out) {
    draw_by_threads(model.parameters[parameter.value], job.seed, first, out, threads);
  });
}

}  // namespace shardscope
