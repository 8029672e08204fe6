#include "cli/run_training/run_training.h"

#include <optional>
#include <string>
#include <utility>

#include "cli/job_settings.h"
#include "cli/pytorch_scenario.h"
#include "cli/recipe_option.h"
#include "core/format/is_there.h"
#include "sim/planner/choice_json.h"
#include "sim/planner/training_choice.h"

namespace shardscope {

RunTraining training_of_run(const RunFolder& folder, const HardwareProfile& machine) {
  JobOptions job;
  ShardingOptions sharding;
  PytorchOptions pytorch;
  PlaceOptions place;
  std::optional<std::string> cluster;
  job.job = folder.job().string();
  take_settings_of_job({job, sharding, pytorch, cluster});
  take_recipe({job, sharding, pytorch, cluster}, place, {.quiet = true});
  PytorchScenario scenario = scenario_of_one_run({.job = job,
                                                  .sharding = sharding,
                                                  .pytorch = pytorch,
                                                  .place = place,
                                                  .gpu = gpu_of(machine)},
                                                 machine);
  planner::Choice choice = sharding.choice ? planner::read_choice(*sharding.choice)
                                           : planner::choice_of(scenario.training, scenario.model);
  const bool is_of_file = sharding.names_file();
  planner::Training shared = training_of(scenario, is_of_file || sharding.choice.has_value());
  return {.job = std::move(scenario.job),
          .model = std::move(scenario.model),
          .config = std::move(scenario.config),
          .training = std::move(scenario.training),
          .choice = std::move(choice),
          .shared = std::move(shared),
          .is_of_file = is_of_file};
}

void apply_free_memory(const HardwareProfile& machine, const Model& model,
                       std::optional<eager::FineTuningSetup>& tuning) {
  apply_free_memory(gpu_of(machine), model, tuning);
}

}  // namespace shardscope
