#include "cli/prediction.h"

#include <utility>

#include "core/format/atomic_file.h"
#include "traces/chrome_writer.h"
#include "traces/predicted_buffers.h"

namespace shardscope {

Prediction predict(const NativeScenario& scenario, const HardwareProfile& profile) {
  Schedule schedule =
      schedule_of(scenario, {.kind = profile.device, .threads = profile.threads_per_rank});
  const PredictedRun run = native_run(schedule);
  return predict(std::move(schedule), run, profile);
}

void write_prediction(const Prediction& prediction, std::string_view verb,
                      const RunFolder& folder) {
  create_folder(folder.predicted_summary().parent_path());
  write_chrome_trace(prediction.trace, folder.predicted_trace());
  write_buffers(prediction.schedule, folder.predicted_buffers());
  write_summary(prediction.summary, verb, folder.predicted_summary());
}

}  // namespace shardscope
