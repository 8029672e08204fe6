// shardscope schedule: the operations and buffers of one rank.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "cli/output_options.h"
#include "cli/scenario.h"
#include "cli/schedule_report.h"
#include "cli/verb.h"
#include "core/quantities.h"

namespace shardscope {
namespace {

struct ScheduleOptions {
  JobOptions job;
  PlaceOptions place;
  OutputOptions output;
  std::optional<std::string> device;
  bool collectives = false;
};

std::string headline(const Scenario& scenario, const Schedule& schedule) {
  const auto collectives =
      std::count_if(schedule.operations.begin(), schedule.operations.end(),
                    [](const Operation& op) { return is_collective(op.kind); });
  return fmt::format(
      "{} on {} ranks, mesh {}; rank {}\nbatch {} x {} tokens, {} micro-batch{}: {} operations, {} "
      "of them collectives",
      name_of(scenario.strategy.sharding), scenario.world, text_of(scenario.strategy.mesh),
      scenario.rank, scenario.workload.batch, scenario.workload.length,
      scenario.workload.micro_batches, scenario.workload.micro_batches == 1 ? "" : "es",
      schedule.operations.size(), collectives);
}

std::string footer(const Schedule& schedule) {
  Bytes peak;
  for (const CategoryBytes& live : live_bytes(schedule)) peak = std::max(peak, live.total());
  return fmt::format("peak of live bytes {}, arena {}\n", rounded_text(peak),
                     rounded_text(arena_layout(schedule).size));
}

ExitCode run_schedule(const ScheduleOptions& options) {
  const Scenario scenario = resolve_scenario(options.job, options.place);
  const Schedule schedule =
      schedule_of(scenario, {.kind = parse_device(options.device.value_or("cpu"))});
  if (options.output.json) {
    print(schedule_json(schedule, options.collectives));
    return ExitCode::done;
  }
  const Painter painter = options.output.painter();
  note_assumptions(options.output, scenario.assumed);
  print(painter(Paint::bold, headline(scenario, schedule)) + "\n\n");
  print(options.collectives ? collectives_table(schedule, painter)
                            : schedule_table(schedule, painter));
  print("\n" + footer(schedule));
  return ExitCode::done;
}

}  // namespace

void declare_schedule(Command& command) {
  const auto options = std::make_shared<ScheduleOptions>();
  declare_job_options(command, options->job);
  declare_native_only(command);
  declare_place_options(command, options->place);
  command.option("--device", options->device,
                 {"cpu|cuda", "whose kernels' scratch is counted; cpu unless given"});
  declare_output_options(command, options->output);
  command.flag("--collectives", options->collectives, "only those");
  command.examples({{"shardscope schedule --model examples/models/gpt2 --strategy full_shard "
                     "--world 8 --batch 4 --seq 1024",
                     "every operation of one steady step"},
                    {"shardscope schedule --job job.json --collectives",
                     "what travels between the ranks of a job"}});
  command.action([options] { return run_schedule(*options); });
}

}  // namespace shardscope
