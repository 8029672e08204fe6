// shardscope calibrate: measures this machine and writes its hardware profile.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/calibrate/calibrate.h"
#include "backend/comm/make_communicator.h"
#include "backend/cpu/cpu_device.h"
#include "backend/launch/environment.h"
#include "backend/launch/launcher.h"
#include "cli/hardware_choice.h"
#include "cli/output_options.h"
#include "cli/own_arguments.h"
#include "cli/scenario.h"
#include "cli/verb.h"
#include "core/error.h"
#include "core/format/atomic_file.h"
#include "sim/hardware_profile.h"

namespace shardscope {
namespace {

constexpr std::int64_t most_ranks = 256;
constexpr std::chrono::seconds longest_wait{60};

struct CalibrateOptions {
  JobOptions job;
  OutputOptions output;
  std::optional<std::int64_t> ranks, threads;
  std::optional<std::string> file;
};

int checked(const std::optional<std::int64_t>& value, std::string_view name, std::int64_t high,
            int otherwise) {
  if (!value) return otherwise;
  if (*value < 1 || *value > high)
    throw Error({.where = std::string(name),
                 .what = fmt::format("expected 1 to {}, got {}", high, *value)});
  return static_cast<int>(*value);
}

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int threads_of(const CalibrateOptions& options, int local_ranks) {
  return checked(options.threads, "--threads", 1024, std::max(1, cores() / local_ranks));
}

std::string today() { return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))); }

Bytes host_memory() { return Bytes{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

/// The strategies that can run on `ranks` ranks, each on its usual mesh.
std::vector<Strategy> strategies_for(const Strategy& like, int ranks) {
  std::vector<Strategy> strategies;
  for (const ShardingStrategy sharding : native_strategies()) {
    const bool hybrid = sharding == ShardingStrategy::hybrid_shard ||
                        sharding == ShardingStrategy::hybrid_shard_zero2;
    if (hybrid && (ranks < 4 || ranks % 2 != 0)) continue;
    Strategy strategy = like;
    strategy.sharding = sharding;
    strategy.mesh = hybrid ? Mesh{.replicate = 2, .shard = ranks / 2} : Mesh{};
    strategies.push_back(resolved(strategy, ranks, "--ranks"));
  }
  return strategies;
}

/// What the job's kernels and collectives are, alone and under every strategy.
CalibrationPlan plan_of(const CalibrateOptions& options, const Environment& environment,
                        const Device& device) {
  const Job job = job_of(options.job);
  const Precision precision = job.strategy.precision;
  if (!options.job.model && !options.job.job) return {.precision = precision};
  Job alone = job;
  alone.strategy.sharding = ShardingStrategy::no_shard;
  alone.strategy.mesh = {};
  const Scenario scenario = scenario_of(alone, 1, 0);
  const WorkspaceQuery workspace = [&](const Kernel& kernel) { return device.workspace(kernel); };
  CalibrationPlan plan{
      .step = native_schedule(scenario.model, scenario.strategy, scenario.workload, 0, workspace),
      .precision = precision};
  for (const Strategy& strategy : strategies_for(job.strategy, environment.world))
    plan.schedules.push_back(
        native_schedule(scenario.model, strategy, scenario.workload, environment.rank, workspace));
  return plan;
}

struct Measured {
  Calibration calibration;
  std::string device;
  int ranks = 1;
  int local_ranks = 1;
  int threads = 1;
};

HardwareProfile profile_of(const Measured& measured) {
  const std::string date = today();
  const Provenance here{Origin::measured,
                        fmt::format("{}, {} rank{} at once", measured.device, measured.ranks,
                                    measured.ranks == 1 ? "" : "s"),
                        date};
  const Calibration& c = measured.calibration;
  HardwareProfile profile{.name = "this machine",
                          .source = fmt::format("measured {} on {}", date, here.source),
                          .device = "cpu",
                          .threads_per_rank = measured.threads,
                          .ranks = measured.ranks,
                          .memory = host_memory() / measured.local_ranks,
                          .peak = c.peak,
                          .peak_bfloat16 = c.peak_bfloat16,
                          .memory_bandwidth = c.memory_bandwidth,
                          .operation_overhead = c.operation_overhead,
                          .kernels = c.kernels,
                          .collectives = c.collectives,
                          .compute_slowdown = c.compute_slowdown,
                          .collective_slowdown = c.collective_slowdown};
  if (c.peak_bfloat16) profile.provenance["peak_bfloat16"] = here;
  for (const char* figure : {"memory", "peak", "memory_bandwidth", "operation_overhead", "kernels",
                             "collectives", "contention"})
    profile.provenance[figure] = here;
  return profile;
}

std::string json_text(const HardwareProfile& profile, const std::string& file, double elapsed_s) {
  return fmt::format(
      "{{\"schema\": \"shardscope.calibrate/1\", \"file\": \"{}\", \"device\": \"{}\", \"ranks\": "
      "{}, "
      "\"threads_per_rank\": {}, \"memory_bytes\": {}, \"peak_flops_per_s\": {:.0f}, "
      "\"memory_bandwidth_bytes_per_s\": {:.0f}, \"operation_overhead_ns\": {}, "
      "\"kernel_samples\": {}, \"collective_samples\": {}, \"compute_slowdown\": {}, "
      "\"collective_slowdown\": {}, \"elapsed_s\": {:.3f}}}\n",
      file, profile.device, profile.ranks, profile.threads_per_rank, profile.memory.count,
      profile.peak.flops_per_s, profile.memory_bandwidth.bytes_per_s, profile.operation_overhead.ns,
      profile.kernels.size(), profile.collectives.size(), profile.compute_slowdown,
      profile.collective_slowdown, elapsed_s);
}

std::string human_text(const HardwareProfile& profile, const std::string& file, double elapsed_s) {
  std::string text = profile.source + "\n";
  text += fmt::format("  matrix products   {} at best, of one rank\n", rounded_text(profile.peak));
  if (profile.peak_bfloat16)
    text += fmt::format("  in bfloat16       {}\n", rounded_text(*profile.peak_bfloat16));
  text +=
      fmt::format("  memory            {} of one rank\n", rounded_text(profile.memory_bandwidth));
  text += fmt::format("  per operation     {}\n", rounded_text(profile.operation_overhead));
  if (profile.ranks > 1)
    text += fmt::format("  at once           compute {:.2f}x slower, collectives {:.2f}x\n",
                        profile.compute_slowdown, profile.collective_slowdown);
  return text + fmt::format("{} kernels and {} collectives in {:.1f} s, written to {}\n",
                            profile.kernels.size(), profile.collectives.size(), elapsed_s, file);
}

ExitCode calibrate_as_rank(const CalibrateOptions& options, const Environment& environment) {
  const auto start = std::chrono::steady_clock::now();
  const int threads = threads_of(options, environment.local_world);
  const std::unique_ptr<Device> device = make_cpu_device({.threads = threads});
  const CalibrationPlan plan = plan_of(options, environment, *device);
  const std::unique_ptr<Communicator> world =
      make_communicator(CommunicatorChoice::automatic, environment, longest_wait);
  const bool speaks = environment.rank == 0;
  const Calibration calibration = calibrate(*world, *device, plan, [&](std::string_view line) {
    if (speaks) options.output.note(fmt::format("measuring {}", line));
  });
  if (!speaks) return ExitCode::done;

  const HardwareProfile profile = profile_of({.calibration = calibration,
                                              .device = device->description(),
                                              .ranks = environment.world,
                                              .local_ranks = environment.local_world,
                                              .threads = threads});
  const std::filesystem::path path =
      options.file ? std::filesystem::path(*options.file) : calibrated_profile_path("cpu");
  if (path.has_parent_path()) create_folder(path.parent_path());
  const std::string file = path.string();
  write_atomically(file, to_json(profile));
  const double elapsed_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print(options.output.json ? json_text(profile, file, elapsed_s)
                            : human_text(profile, file, elapsed_s));
  return ExitCode::done;
}

ExitCode run_calibrate(const CalibrateOptions& options) {
  const Environment environment = read_environment(process_variables());
  const int ranks = checked(options.ranks, "--ranks", most_ranks, 1);
  if (environment.started_by != StartedBy::user || ranks == 1)
    return calibrate_as_rank(options, environment);
  return launch({.ranks = ranks, .arguments = own_arguments()});
}

}  // namespace

void declare_calibrate(Command& command) {
  const auto options = std::make_shared<CalibrateOptions>();
  declare_job_options(command, options->job);
  declare_native_only(command);
  command.heading("Where");
  command.option("--ranks", options->ranks,
                 {"N", "processes that measure at once, as many as will train; 1 unless given"});
  command.option("--threads", options->threads,
                 {"N", "compute threads of a rank; cores / ranks unless given"});
  command.option("-o", options->file,
                 {"FILE", "the profile; unless given, where predictions look for it"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope calibrate --ranks 2",
        "kernels and collectives over sizes, two processes at once"},
       {"shardscope calibrate --ranks 2 --model examples/models/gpt2 --batch 8 --seq 256 -o "
        "hardware.json",
        "measures what training this model will run, too"}});
  command.action([options] { return run_calibrate(*options); });
}

}  // namespace shardscope
