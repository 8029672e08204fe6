// shardscope schedule: the operations and buffers of one rank.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/native_scenario.h"
#include "cli/output_options.h"
#include "cli/prediction.h"
#include "cli/pytorch_options.h"
#include "cli/pytorch_scenario.h"
#include "cli/schedule_report.h"
#include "cli/sharding_options.h"
#include "cli/verb.h"
#include "core/base/quantities.h"

namespace shardscope {
namespace {

struct ScheduleOptions {
  JobOptions job;
  ShardingOptions sharding;
  PytorchOptions pytorch;
  PlaceOptions place;
  OutputOptions output;
  std::optional<std::string> device;
  bool collectives = false;
};

std::ptrdiff_t collectives_of(const Schedule& schedule) {
  return std::count_if(schedule.operations.begin(), schedule.operations.end(),
                       [](const Operation& op) { return is_collective(op.kind); });
}

std::string headline(const NativeScenario& scenario, const Schedule& schedule) {
  return fmt::format(
      "{} on {} ranks, mesh {}; rank {}\nbatch {} x {} tokens, {} micro-batch{}: {} operations, {} "
      "of them collectives",
      name_of(scenario.strategy.sharding), scenario.world, text_of(scenario.strategy.mesh),
      scenario.rank, scenario.workload.batch, scenario.workload.length,
      scenario.workload.micro_batches, scenario.workload.micro_batches == 1 ? "" : "es",
      schedule.operations.size(), collectives_of(schedule));
}

std::string footer(const Schedule& schedule) {
  Bytes peak;
  for (const CategoryBytes& live : live_bytes(schedule)) peak = std::max(peak, live.total());
  return fmt::format("peak of live bytes {}, arena {}\n", rounded_text(peak),
                     rounded_text(arena_layout(schedule).size));
}

std::string headline(const PytorchScenario& scenario, const Schedule& schedule) {
  const planner::PytorchTraining& training = scenario.training;
  return fmt::format(
      "{} {} on {} ranks; rank {}\nbatch {} x {} tokens: {} operations of set-up and steps 1, 2 "
      "and "
      "steady, {} of them collectives",
      name_of(training.runtime), training.strategy, training.setup.world, training.setup.rank,
      training.setup.loop.batch, training.setup.loop.length, schedule.operations.size(),
      collectives_of(schedule));
}

/// One schedule, whoever's rules made it: as a text, its table is `table` unless only collectives
/// are asked for.
void show(const ScheduleOptions& options, const Schedule& schedule, const std::string& headline,
          const std::vector<std::string>& assumed,
          std::string (*table)(const Schedule&, const Painter&)) {
  if (options.output.json) return print(schedule_json(schedule, options.collectives));
  const Painter painter = options.output.painter();
  note_assumptions(options.output, assumed);
  print(painter(Paint::bold, headline) + "\n\n");
  print((options.collectives ? collectives_table : table)(schedule, painter));
}

ExitCode run_pytorch(const ScheduleOptions& options) {
  const PytorchScenario scenario = resolve_pytorch_scenario({.job = options.job,
                                                             .sharding = options.sharding,
                                                             .pytorch = options.pytorch,
                                                             .place = options.place,
                                                             .gpu = {}});
  const Schedule schedule = schedule_of(scenario);
  show(options, schedule, headline(scenario, schedule), scenario.training.assumed, program_table);
  return ExitCode::done;
}

ExitCode run_schedule(const ScheduleOptions& options) {
  if (options.sharding.other_than_native()) return run_pytorch(options);
  options.pytorch.refuse_under_native();
  NativeScenario scenario = resolve_native_scenario(options.job, options.place);
  deal_out_layers(scenario, nullptr);
  const Schedule schedule =
      schedule_of(scenario, {.kind = parse_device(options.device.value_or("cpu"))});
  show(options, schedule, headline(scenario, schedule), scenario.assumed, schedule_table);
  if (!options.output.json) print("\n" + footer(schedule));
  return ExitCode::done;
}

}  // namespace

void declare_schedule(Command& command) {
  const auto options = std::make_shared<ScheduleOptions>();
  declare_job_options(command, options->job);
  declare_sharding_options(command, options->sharding);
  declare_pytorch_options(command, options->pytorch);
  declare_place_options(command, options->place);
  command.option("--device", options->device,
                 {"cpu|cuda", "device whose kernels' scratch is counted (default: cpu)"});
  declare_output_options(command, options->output);
  command.flag("--collectives", options->collectives, "prints only the collectives");
  command.examples({{"shardscope schedule --model examples/models/gpt2 --strategy full_shard "
                     "--world 8 --batch 4 --seq 1024",
                     "every operation of one steady step"},
                    {"shardscope schedule --runtime fsdp1 --model examples/models/gpt2 --world 8 "
                     "--collectives",
                     "collectives of FSDP1, in the order in which PyTorch's host issues them"},
                    {"shardscope schedule --job job.json --collectives",
                     "collectives between the ranks of a job"}});
  command.action([options] { return run_schedule(*options); });
}

}  // namespace shardscope
