#include "cli/prediction.h"

#include "core/format/atomic_file.h"
#include "traces/chrome_writer.h"
#include "traces/predicted_buffers.h"

namespace shardscope {

Prediction predict(const NativeScenario& scenario, const HardwareProfile& profile) {
  const Strategy& strategy = scenario.strategy;
  return predict(
      schedule_of(scenario, {.kind = profile.device, .threads = profile.threads_per_rank}),
      PredictedRun{.strategy = std::string(name_of(strategy.sharding)),
                   .runtime = std::string(name_of(strategy.runtime)),
                   .precision = std::string(name_of(strategy.precision)),
                   .compute = dtypes_of(strategy.precision).compute,
                   .tokens_per_step = tokens_per_step(scenario)},
      profile);
}

void write_prediction(const Prediction& prediction, std::string_view verb,
                      const RunFolder& folder) {
  create_folder(folder.predicted_summary().parent_path());
  write_chrome_trace(prediction.trace, folder.predicted_trace());
  write_buffers(prediction.schedule, folder.predicted_buffers());
  write_summary(prediction.summary, verb, folder.predicted_summary());
}

}  // namespace shardscope
