#include "cli/prediction.h"

#include <utility>

#include "core/format/atomic_file.h"
#include "core/model_flops.h"
#include "sim/band.h"
#include "sim/collectives/collective_rows.h"
#include "sim/cost_model.h"
#include "sim/simulate.h"
#include "traces/chrome_writer.h"

namespace shardscope {

Prediction predict(const Scenario& scenario, const HardwareProfile& profile) {
  Prediction result{.schedule = schedule_of(
                        scenario, {.kind = profile.device, .threads = profile.threads_per_rank})};
  Simulation simulation = simulate(result.schedule, profile);
  const StepTimeBand band = step_time_band(result.schedule, profile);
  result.trace = std::move(simulation.trace);
  RunFacts facts;
  facts.strategy = name_of(scenario.strategy.sharding);
  facts.runtime = name_of(scenario.strategy.runtime);
  facts.precision = name_of(scenario.strategy.precision);
  if (profile.memory.count > 0) facts.device_memory = profile.memory;
  facts.assumed = result.schedule.assumed;
  for (std::string& text : assumptions(result.schedule, profile))
    facts.assumed.push_back(std::move(text));
  facts.tokens_per_step = tokens_per_step(scenario);
  facts.model_flops = model_flops(result.schedule);
  facts.peak = peak_of(profile, dtypes_of(scenario.strategy.precision).compute);
  facts.mfu_formula = mfu_formula;
  facts.collectives = collective_rows(result.schedule, profile);
  facts.arena = arena_layout(result.schedule).size;
  facts.low_factor = band.low_factor;
  facts.high_factor = band.high_factor;
  result.summary = summarize(result.trace, facts);
  return result;
}

void write_prediction(const Prediction& prediction, std::string_view verb,
                      const RunFolder& folder) {
  create_folder(folder.predicted_summary().parent_path());
  write_chrome_trace(prediction.trace, folder.predicted_trace());
  write_summary(prediction.summary, verb, folder.predicted_summary());
}

}  // namespace shardscope
