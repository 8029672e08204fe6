// shardscope calibrate: measures this machine and writes its hardware profile.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/core_binding.h"
#include "backend/calibrate/calibrate.h"
#include "backend/comm/nccl/settings.h"
#include "backend/comm/nccl/tuning_log.h"
#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_probe.h"
#include "backend/job/gpu_place.h"
#include "backend/job/join_job.h"
#include "backend/job/make_communicator.h"
#include "backend/launch/launcher.h"
#include "backend/rendezvous/environment.h"
#include "cli/device_choice.h"
#include "cli/hardware_choice.h"
#include "cli/native_scenario.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/own_arguments.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/model/huggingface.h"
#include "core/native/native_abilities.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "sim/cost/collective_curves.h"
#include "sim/hardware/hardware_profile.h"
#include "traces/figure.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t most_ranks = 256;
constexpr std::chrono::seconds longest_wait{60};

struct CalibrateOptions {
  JobOptions job;
  OutputOptions output;
  std::optional<std::int64_t> ranks, threads;
  std::optional<std::string> file, device;
  bool model_only = false;
};

int checked(const std::optional<std::int64_t>& value, std::string_view name, std::int64_t high,
            int otherwise) {
  if (!value) return otherwise;
  if (*value < 1 || *value > high)
    throw Error({.where = std::string(name),
                 .what = fmt::format("expected 1 to {}, got {}", high, *value)});
  return static_cast<int>(*value);
}

int threads_of(const CalibrateOptions& options, int local_ranks) {
  return checked(options.threads, "--threads", 1024, std::max(1, cores_at_start() / local_ranks));
}

std::string today() { return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))); }

Bytes host_memory() { return Bytes{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

/// The strategies that can run on `ranks` ranks, each on its usual mesh.
std::vector<Strategy> strategies_for(const Strategy& like, int ranks) {
  std::vector<Strategy> strategies;
  for (const ShardingStrategy sharding : native_abilities().strategies) {
    const bool hybrid = is_hybrid(sharding);
    if (hybrid && (ranks < 4 || ranks % 2 != 0)) continue;
    Strategy strategy = like;
    strategy.sharding = sharding;
    strategy.mesh = hybrid ? Mesh{.replicate = 2, .shard = ranks / 2} : Mesh{};
    strategies.push_back(resolved(strategy, ranks, "--ranks"));
  }
  return strategies;
}

/// The job with the device and precision that are measured.
Job job_to_measure(const CalibrateOptions& options, const Environment& environment) {
  Job job = job_of(options.job);
  job.ranks = environment.world;
  if (options.device) job.device = parse_device(*options.device, OrAuto::yes);
  choose_device(job, environment.local_world);
  return job;
}

/// What the job's kernels and collectives are, alone and under every strategy; kernels of smaller
/// micro-batches, too, down to one sequence.
CalibrationPlan plan_of(const CalibrateOptions& options, const Job& job,
                        const Environment& environment, const Device& device) {
  const Precision precision = job.strategy.precision;
  if (!options.job.model && !options.job.job) {
    if (!options.model_only) return {.precision = precision};
    throw Error({.where = "--model-only",
                 .what = "there is no model to measure",
                 .way_out = "give --model or --job"});
  }
  Job alone = job;
  alone.strategy.sharding = ShardingStrategy::no_shard;
  alone.strategy.mesh = {};
  NativeScenario scenario = native_scenario_of(alone, 1, 0);
  const Target target = device.target();
  CalibrationPlan plan{.precision = precision, .grid = !options.model_only};
  for (const Strategy& strategy : strategies_for(job.strategy, environment.world))
    plan.schedules.push_back(
        native_schedule(scenario.model, strategy, scenario.workload, environment.rank, target));
  // Later micro-batches add to the gradients of the first, which other kernels do.
  scenario.workload.micro_batches = std::max(scenario.workload.micro_batches, 2);
  for (; scenario.workload.batch > 0; scenario.workload.batch /= 2)
    plan.steps.push_back(
        native_schedule(scenario.model, scenario.strategy, scenario.workload, 0, target));
  return plan;
}

struct Measured {
  Calibration calibration;
  std::string kind;    ///< "cpu" or "cuda"
  std::string device;  ///< for people, with the state it was in
  Bytes memory;        ///< of one rank
  int ranks = 1;
  int threads = 1;
};

std::optional<Link> link_of(const std::optional<HostCopies>& copies,
                            CopyFigures HostCopies::*direction) {
  if (!copies) return std::nullopt;
  const CopyFigures& figures = (*copies).*direction;
  return Link{.bandwidth = figures.bandwidth, .latency = figures.latency};
}

/// Of the group of all ranks, with every kind of collective.
std::optional<Bytes> communicator_memory(const Calibration& calibration, int ranks) {
  if (calibration.collective_memory.empty()) return std::nullopt;
  Bytes sum;
  for (const CollectiveMemory& one : calibration.collective_memory)
    if (one.ranks == ranks) sum += one.memory;
  return sum;
}

HardwareProfile profile_of(const Measured& measured) {
  const std::string date = today();
  const Provenance here{Origin::measured,
                        fmt::format("{}, {} rank{} at once", measured.device, measured.ranks,
                                    measured.ranks == 1 ? "" : "s"),
                        date};
  const Calibration& c = measured.calibration;
  HardwareProfile profile{.name = "this machine",
                          .source = fmt::format("measured {} on {}", date, here.source),
                          .device = measured.kind,
                          .threads_per_rank = measured.threads,
                          .ranks = measured.ranks,
                          .memory = measured.memory,
                          .context_memory = c.context_memory,
                          .communicator_memory = communicator_memory(c, measured.ranks),
                          .peak = c.peak,
                          .peak_bfloat16 = c.peak_bfloat16,
                          .memory_bandwidth = c.memory_bandwidth,
                          .operation_overhead = c.operation_overhead,
                          .graph_operation_overhead = c.graph_operation_overhead,
                          .first_step_overhead = c.first_step_overhead,
                          .host_to_device = link_of(c.host_copies, &HostCopies::to_device),
                          .device_to_host = link_of(c.host_copies, &HostCopies::to_host),
                          .kernels = c.kernels,
                          .collectives = c.collectives,
                          .collective_memory = c.collective_memory,
                          .straggling = c.straggling,
                          .core_sharing = c.core_sharing,
                          .compute_slowdown = c.compute_slowdown,
                          .collective_slowdown = c.collective_slowdown,
                          .compute_waits = c.compute_waits};
  if (!c.straggling.empty()) profile.provenance["straggling"] = here;
  if (!c.core_sharing.empty()) profile.provenance["core_sharing"] = here;
  if (c.first_step_overhead) profile.provenance["first_step_overhead"] = here;
  if (c.peak_bfloat16) profile.provenance["peak_bfloat16"] = here;
  if (c.context_memory) profile.provenance["context_memory"] = here;
  if (!c.collective_memory.empty()) {
    profile.provenance["communicator_memory"] = here;
    profile.provenance["collective_memory"] = here;
  }
  for (const char* figure :
       {"memory", "peak", "memory_bandwidth", "operation_overhead", "graph_operation_overhead",
        "host_to_device", "device_to_host", "kernels", "collectives", "contention"})
    profile.provenance[figure] = here;
  return profile;
}

/// Where the results went.
struct Files {
  std::string profile;
  std::optional<std::string> figure;  ///< of the collectives; none with one rank
};

Files write_files(const HardwareProfile& profile, const std::filesystem::path& path) {
  if (path.has_parent_path()) create_folder(path.parent_path());
  write_atomically(path, to_json(profile));
  if (profile.collectives.empty()) return {.profile = path.string()};
  const std::filesystem::path figure =
      path.parent_path() / fmt::format("{}.collectives.svg", path.stem().string());
  write_atomically(figure,
                   collectives_figure(collective_curves(profile), "Collectives " + profile.source));
  return {.profile = path.string(), .figure = figure.string()};
}

Json bytes_or_null(const std::optional<Bytes>& bytes) {
  return bytes ? Json(bytes->count) : Json(nullptr);
}

Json bandwidth_or_null(const std::optional<Link>& link) {
  return link ? Json(std::llround(link->bandwidth.bytes_per_s)) : Json(nullptr);
}

std::string json_text(const HardwareProfile& profile, const Files& files, double elapsed_s) {
  const Json json{
      {"schema", "shardscope.calibrate/1"},
      {"file", files.profile},
      {"figure", files.figure ? Json(*files.figure) : Json(nullptr)},
      {"source", profile.source},
      {"device", profile.device},
      {"ranks", profile.ranks},
      {"threads_per_rank", profile.threads_per_rank},
      {"memory_bytes", profile.memory.count},
      {"peak_flops_per_s", std::llround(profile.peak.flops_per_s)},
      {"peak_bfloat16_flops_per_s", profile.peak_bfloat16
                                        ? Json(std::llround(profile.peak_bfloat16->flops_per_s))
                                        : Json(nullptr)},
      {"memory_bandwidth_bytes_per_s", std::llround(profile.memory_bandwidth.bytes_per_s)},
      {"operation_overhead_ns", profile.operation_overhead.ns},
      {"graph_operation_overhead_ns", profile.graph_operation_overhead
                                          ? Json(profile.graph_operation_overhead->ns)
                                          : Json(nullptr)},
      {"host_to_device_bytes_per_s", bandwidth_or_null(profile.host_to_device)},
      {"device_to_host_bytes_per_s", bandwidth_or_null(profile.device_to_host)},
      {"kernel_samples", profile.kernels.size()},
      {"collective_samples", profile.collectives.size()},
      {"context_memory_bytes", bytes_or_null(profile.context_memory)},
      {"communicator_memory_bytes", bytes_or_null(profile.communicator_memory)},
      {"compute_slowdown", profile.compute_slowdown},
      {"collective_slowdown", profile.collective_slowdown},
      {"compute_waits", profile.compute_waits},
      {"elapsed_s", elapsed_s}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string human_text(const HardwareProfile& profile, const Files& files, double elapsed_s) {
  std::string text = profile.source + "\n";
  text += fmt::format("  matrix products   {} at best, of one rank\n", rounded_text(profile.peak));
  if (profile.peak_bfloat16)
    text += fmt::format("  in bfloat16       {}\n", rounded_text(*profile.peak_bfloat16));
  text +=
      fmt::format("  memory            {} of one rank\n", rounded_text(profile.memory_bandwidth));
  text += fmt::format("  per operation     {}\n", rounded_text(profile.operation_overhead));
  if (profile.graph_operation_overhead)
    text +=
        fmt::format("  in a graph        {}\n", rounded_text(*profile.graph_operation_overhead));
  if (profile.first_step_overhead)
    text += fmt::format("  a first step      takes {} longer\n",
                        rounded_text(*profile.first_step_overhead));
  if (profile.host_to_device && profile.device_to_host)
    text +=
        fmt::format("  from, to the host {}, {}\n", rounded_text(profile.host_to_device->bandwidth),
                    rounded_text(profile.device_to_host->bandwidth));
  if (profile.ranks > 1)
    text += fmt::format(
        "  at once           compute takes {:.2f} times, collectives {:.2f} times as long\n",
        profile.compute_slowdown, profile.collective_slowdown);
  if (!profile.straggling.empty())
    text += fmt::format("  the last rank     is {} late after {} of compute\n",
                        rounded_text(profile.straggling.back().wait),
                        rounded_text(profile.straggling.back().compute));
  if (!profile.core_sharing.empty())
    text += fmt::format(
        "  one rank alone    takes {:.0f}% of the time that each takes while all compute\n",
        profile.core_sharing.front().time_share * 100);
  text += fmt::format("{} kernels and {} collectives in {:.1f} s, written to {}\n",
                      profile.kernels.size(), profile.collectives.size(), elapsed_s, files.profile);
  return files.figure ? text + fmt::format("collectives drawn in {}\n", *files.figure) : text;
}

/// A file of this process alone, where NCCL writes what it chooses; gone with this.
class NcclLog {
 public:
  ~NcclLog() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  NcclLog() = default;
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / fmt::format("shardscope-nccl-{}.txt", ::getpid());
};

struct DeviceToMeasure {
  std::unique_ptr<Device> device;
  Bytes memory;   ///< that a rank can have
  int ranks = 1;  ///< that work on it
};

DeviceToMeasure gpu_to_measure(const Environment& environment, JobSession* session,
                               const NcclLog& log) {
  const int gpus = std::max(1, cuda_device_count());
  const int gpu = gpu_index(environment, gpus);
  const bool is_shared =
      session && share_gpus(session->meeting.store(), environment.world, gpu_identity(gpu));
  if (is_shared && environment.rank == 0) fmt::print(stderr, "{}\n", shared_gpu_warning);
  // Before NCCL is loaded, which reads them.
  set_missing(nccl_defaults({.rank = environment.rank,
                             .shares_gpu = is_shared,
                             .on_one_host = environment.on_one_host()}));
  set_missing(nccl_tuning_variables(log.path()));
  const CudaMemory memory = probe_cuda_memory(gpu);  // before the device is in use
  const int ranks = is_shared ? (environment.local_world + gpus - 1) / gpus : 1;
  return {.device = make_cuda_device({.index = gpu}), .memory = memory.free, .ranks = ranks};
}

DeviceToMeasure device_to_measure(const Job& job, const Environment& environment,
                                  JobSession* session, int threads, const NcclLog& log) {
  if (job.device == "cuda") return gpu_to_measure(environment, session, log);
  bind_to_cores(
      {.rank = environment.local_rank, .ranks = environment.local_world, .threads = threads});
  return {.device = make_cpu_device({.threads = threads}),
          .memory = host_memory() / environment.local_world};
}

/// A GPU's clocks and power before and after: figures taken while it was throttled are of little
/// use.
std::string state_text(const std::string& before, const std::string& after) {
  return before.empty() ? "" : fmt::format("; {} before, {} after", before, after);
}

ExitCode measure(const CalibrateOptions& options, const Environment& environment,
                 std::shared_ptr<JobSession> session) {
  const auto start = std::chrono::steady_clock::now();
  if (environment.rank == 0 && options.file) {
    const std::filesystem::path folder = std::filesystem::path(*options.file).parent_path();
    if (!folder.empty()) create_folder(folder);
    require_writable(*options.file);
  }
  const int threads = threads_of(options, environment.local_world);
  const Job job = job_to_measure(options, environment);
  const NcclLog nccl_log;
  const DeviceToMeasure measured =
      device_to_measure(job, environment, session.get(), threads, nccl_log);
  Device& device = *measured.device;
  CalibrationPlan plan = plan_of(options, job, environment, device);
  plan.ranks_on_device = measured.ranks;
  plan.cores = {.cores = cores_at_start(), .ranks = environment.local_world, .threads = threads};
  plan.nccl_log = nccl_log.path();
  const std::unique_ptr<Communicator> world =
      make_communicator(CommunicatorChoice::automatic, environment, std::move(session), &device);
  const bool speaks = environment.rank == 0;
  const auto clocks = [&] {
    return job.device == "cuda" ? cuda_clocks(environment.local_rank) : "";
  };
  const std::string clocks_before = clocks();
  const Calibration calibration = calibrate(*world, device, plan, [&](std::string_view line) {
    if (speaks) options.output.note(fmt::format("measuring {}", line));
  });
  if (!speaks) return ExitCode::done;

  const HardwareProfile profile =
      profile_of({.calibration = calibration,
                  .kind = job.device,
                  .device = device.description() + state_text(clocks_before, clocks()),
                  .memory = measured.memory,
                  .ranks = environment.world,
                  .threads = threads});
  const std::filesystem::path path =
      options.file ? std::filesystem::path(*options.file) : calibrated_profile_path(job.device);
  const Files files = write_files(profile, path);
  const double elapsed_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print(options.output.json ? json_text(profile, files, elapsed_s)
                            : human_text(profile, files, elapsed_s));
  return ExitCode::done;
}

ExitCode calibrate_as_rank(const CalibrateOptions& options, const Environment& environment) {
  const std::shared_ptr<JobSession> session = join_job(environment, longest_wait);
  return run_as_rank(session.get(), [&] { return measure(options, environment, session); });
}

void check_profile_path(const CalibrateOptions& options) {
  if (!options.file) return;
  std::vector<std::filesystem::path> inputs;
  if (options.job.job) inputs.emplace_back(*options.job.job);
  const bool names_model = options.job.job || options.job.model;
  if (names_model) inputs.push_back(config_path(job_of(options.job).model));
  refuse_over_input(*options.file, inputs, "-o");
}

ExitCode run_calibrate(const CalibrateOptions& options) {
  check_profile_path(options);
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
                 {"N", "processes that measure at once; use as many as will train (default: 1)"});
  command.option("--threads", options->threads,
                 {"N", "compute threads of a rank (default: cores / ranks)"});
  command.option("--device", options->device,
                 {"auto|cpu|cuda", "default: auto, a GPU if there is one, else the CPU"});
  command.flag("--model-only", options->model_only,
               "measures only the kernels and collectives of the model");
  command.option("-o", options->file,
                 {"FILE", "profile to write (default: where predictions look for it)"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope calibrate --ranks 2",
        "kernels and collectives over sizes, two processes at once"},
       {"shardscope calibrate --ranks 2 --model examples/models/gpt2 --batch 8 --seq 256 -o "
        "hardware.json",
        "also measures what the training of this model runs"}});
  command.action([options] { return run_calibrate(*options); });
}

}  // namespace shardscope
