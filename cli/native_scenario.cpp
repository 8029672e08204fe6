#include "cli/native_scenario.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_target.h"
#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"

namespace shardscope {
namespace {

/// Ranks are symmetric, so that the world is only a number; this bounds the lists of ranks that
/// groups carry.
constexpr std::int64_t largest_world = 1 << 20;

int checked(std::int64_t value, std::string_view name, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    throw Error({.where = std::string(name),
                 .what = fmt::format("expected {} to {}, got {}", low, high, value)});
  }
  return static_cast<int>(value);
}

int world_of(const JobOptions& options, const PlaceOptions& place, const Job& job,
             std::vector<std::string>& assumed) {
  if (place.world) return checked(*place.world, "--world", 1, largest_world);
  if (options.mesh) return job.strategy.mesh.world();
  if (!options.job) assumed.push_back("1 rank (--world)");
  return options.job ? job.ranks : 1;
}

void add_assumed(const NativeScenario& scenario, Schedule& schedule) {
  schedule.assumed.insert(schedule.assumed.begin(), scenario.assumed.begin(),
                          scenario.assumed.end());
}

}  // namespace

NativeScenario native_scenario_of(const Job& job, int world, int rank,
                                  const ModelOptions& options) {
  NativeScenario scenario{
      .job = job, .model = trained_model(job, options), .world = world, .rank = rank};
  scenario.strategy = resolved(job.strategy, world, "strategy");
  scenario.workload = {.batch = job.batch,
                       .length = job.seq,
                       .micro_batches = job.accumulate,
                       .optimizer = job.optimizer,
                       .clip = job.clip};
  return scenario;
}

NativeScenario resolve_native_scenario(const JobOptions& options, const PlaceOptions& place,
                                       const ModelOptions& model) {
  Job job = job_of(options);
  std::vector<std::string> assumed = assumptions(options, job);
  const int world = world_of(options, place, job, assumed);
  const int rank = checked(place.rank.value_or(0), "--rank", 0, world - 1);
  apply_tokens_per_batch(options, world, job);
  NativeScenario scenario = native_scenario_of(job, world, rank, model);
  scenario.assumed = std::move(assumed);
  const std::vector<std::string>& of_model = scenario.model.assumed;
  scenario.assumed.insert(scenario.assumed.end(), of_model.begin(), of_model.end());
  return scenario;
}

std::string parse_device(const std::string& text, OrAuto or_auto) {
  if (text == "cpu" || text == "cuda" || (or_auto == OrAuto::yes && text == "auto")) return text;
  throw Error({.where = "--device",
               .what = fmt::format("\"{}\" is none of {}cpu, cuda", text,
                                   or_auto == OrAuto::yes ? "auto, " : "")});
}

Target native_target(const Job& job, const DeviceKind& device) {
  if (device.kind != "cpu") return cuda_target();
  const int threads = job.threads > 0 ? job.threads : device.threads;
  const std::shared_ptr<Device> cpu = make_cpu_device({.threads = threads});
  Target target = cpu->target();
  // The target's query asks the device, which lives as long as it.
  target.workspace = [cpu, query = std::move(target.workspace)](const Kernel& kernel) {
    return query(kernel);
  };
  return target;
}

NativeTraining native_training(const NativeScenario& scenario) {
  return {.model = scenario.model,
          .strategy = scenario.strategy,
          .workload = scenario.workload,
          .pipeline = scenario.job.pipeline,
          .memory_budget = scenario.job.memory_budget};
}

Schedule schedule_of(const NativeScenario& scenario, const DeviceKind& device) {
  Schedule schedule = native_schedule(native_training(scenario), scenario.rank,
                                      native_target(scenario.job, device));
  add_assumed(scenario, schedule);
  return schedule;
}

std::vector<Schedule> schedules_of_stages(const NativeScenario& scenario,
                                          const DeviceKind& device) {
  std::vector<Schedule> schedules = native_schedules_of_stages(
      native_training(scenario), scenario.rank, native_target(scenario.job, device));
  for (Schedule& schedule : schedules) add_assumed(scenario, schedule);
  return schedules;
}

PipelineSetup setup_of(const NativeScenario& scenario) {
  const PipelineChoice& pipeline = scenario.job.pipeline;
  return {.kind = pipeline.schedule,
          .ranks = scenario.strategy.mesh.pipeline,
          .stages_per_rank = pipeline.stages_per_rank,
          .micro_batches = scenario.workload.micro_batches,
          .options = {}};
}

}  // namespace shardscope
