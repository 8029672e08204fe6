// shardscope train: predicts, really trains, and lays the two over each other.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/checkpoint/checkpoint_folder.h"
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_probe.h"
#include "backend/data/token_batch.h"
#include "backend/data/token_stream.h"
#include "backend/job/folder_lock.h"
#include "backend/job/join_job.h"
#include "backend/launch/launcher.h"
#include "backend/profile/job_notice.h"
#include "backend/rendezvous/environment.h"
#include "backend/train/checkpointer.h"
#include "backend/train/fault_injector.h"
#include "backend/train/load_state.h"
#include "backend/train/train.h"
#include "cli/device_choice.h"
#include "cli/finished_run.h"
#include "cli/hardware_choice.h"
#include "cli/native_scenario.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/own_arguments.h"
#include "cli/pipeline_notes.h"
#include "cli/prediction.h"
#include "cli/summary_text.h"
#include "cli/verb.h"
#include "cli/what_fits.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/model/model_weights.h"
#include "core/native/most_profiled_steps.h"
#include "core/native/pipeline_stages.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t most_ranks = 1024;
constexpr std::int64_t most_threads = 4096;
constexpr std::int64_t most_restarts = 1'000'000;

struct TrainCommand {
  std::optional<std::string> file;
  JobOptions job;
  std::vector<std::string> data;
  std::optional<std::int64_t> ranks, threads, profile_steps, max_restarts, next_token;
  std::optional<std::string> device, communicator, cluster, folder, profile, resume;
  bool check = false;
  bool help_job = false;
  OutputOptions output;
};

CommunicatorChoice parse_communicator(const std::string& text) {
  if (text == "auto") return CommunicatorChoice::automatic;
  if (text == "shared_memory") return CommunicatorChoice::shared_memory;
  if (text == "mpi") return CommunicatorChoice::mpi;
  if (text == "nccl") return CommunicatorChoice::nccl;
  throw Error({.where = "--communicator",
               .what = fmt::format("\"{}\" is none of auto, shared_memory, mpi, nccl", text)});
}

int checked(std::int64_t value, std::string_view name, std::int64_t high) {
  if (value < 1 || value > high) {
    throw Error(
        {.where = std::string(name), .what = fmt::format("expected 1 to {}, got {}", high, value)});
  }
  return static_cast<int>(value);
}

/// runs/<job>: a name that all ranks find by themselves.
std::filesystem::path usual_folder(const TrainCommand& options, const Job& job) {
  const std::string name = options.file ? std::filesystem::path(*options.file).stem().string()
                                        : std::string(name_of(job.strategy.sharding));
  return std::filesystem::path("runs") / name;
}

/// As many as the launcher started, else as options or job say.
int ranks_of(const TrainCommand& options, const Job& job, const Environment& environment) {
  const int wanted = options.ranks ? checked(*options.ranks, "--ranks", most_ranks) : job.ranks;
  if (environment.started_by == StartedBy::user) return wanted;
  if (options.ranks && wanted != environment.world) {
    throw Error({.where = "--ranks",
                 .what = fmt::format("{} were asked for, but {} started {}", wanted,
                                     name_of(environment.started_by), environment.world),
                 .way_out = "leave --ranks out under a launcher"});
  }
  return environment.world;
}

int local_ranks(const Job& job, const Environment& environment) {
  return environment.started_by == StartedBy::user ? job.ranks : environment.local_world;
}

/// The device is a concrete one; what nobody said is listed.
struct ResolvedJob {
  Job job;
  std::vector<std::string> assumed;
};

std::string start_text(const Job& job) {
  if (job.weights == StartWeights::pretrained)
    return fmt::format("start weights: those in {}", job.model.string());
  const std::string random = fmt::format("start weights: random, seed {}", job.seed);
  const std::optional<std::string> unread = unread_weights(job.model);
  if (!unread) return random;
  return fmt::format(
      "{}; those in {} are not read: save the model as safetensors to start from them "
      "(save_pretrained of transformers does)",
      random, (job.model / *unread).string());
}

/// A file of the model's tokenizer, if the folder has one.
std::optional<std::string> tokenizer_file(const std::filesystem::path& model) {
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json"})
    if (is_there(model / name)) return name;
  return std::nullopt;
}

/// Start weights and the reading of text, which the model's folder suggests.
std::vector<std::string> choose_start(Job& job) {
  std::vector<std::string> said;
  if (job.weights == StartWeights::automatic) {
    job.weights = has_weights(job.model) ? StartWeights::pretrained : StartWeights::random;
    said.push_back(start_text(job));
  }
  const std::optional<std::string> tokenizer = tokenizer_file(job.model);
  if (tokenizer && reads_text(job.data, job.token_format))
    said.push_back(
        fmt::format("text is read as bytes: the model's {} is not used; encode the text "
                    "and give token files to train on its tokens",
                    *tokenizer));
  return said;
}

/// The job file with everything that the command line and the environment say about it.
ResolvedJob resolved_job(const TrainCommand& options, const Environment& environment) {
  JobOptions job_options = options.job;
  if (options.file) job_options.job = options.file;
  Job job = job_of(job_options);
  if (!options.data.empty()) job.data = {options.data.begin(), options.data.end()};
  if (job.data.empty()) {
    throw Error({.where = "--data",
                 .what = "no data was given",
                 .way_out = "give text files, folders or token files"});
  }
  job.ranks = ranks_of(options, job, environment);
  if (options.threads) job.threads = checked(*options.threads, "--threads", most_threads);
  if (options.profile_steps)
    job.profile_steps = checked(*options.profile_steps, "--profile-steps", most_profiled_steps);
  if (options.profile) job.profile = parse_profile_windows(*options.profile, "--profile");
  if (options.device) job.device = parse_device(*options.device, OrAuto::yes);
  if (options.communicator) job.communicator = parse_communicator(*options.communicator);
  job.check = job.check || options.check;
  if (options.folder) job.output = *options.folder;
  if (job.output.empty()) job.output = usual_folder(options, job);
  job.output = std::filesystem::absolute(job.output).lexically_normal();
  apply_tokens_per_batch(job_options, job.ranks, job);
  std::vector<std::string> assumed = choose_device(job, local_ranks(job, environment));
  for (std::string& text : choose_start(job)) assumed.push_back(std::move(text));
  return {.job = std::move(job), .assumed = std::move(assumed)};
}

int threads_per_rank(const Job& job, const Environment& environment) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / std::max(1, local_ranks(job, environment)));
}

/// Everything that a rank would find wrong, found before any is started.
void check_data(const NativeScenario& scenario, std::int64_t next_token, std::int64_t steps_done) {
  const Job& job = scenario.job;
  const TokenStream tokens = TokenStream::open(job.data, job.token_format);
  require_usable(tokens,
                 {.token_start = next_token,
                  .batch = job.batch,
                  .length = job.seq,
                  .micro_batches = job.accumulate,
                  .ranks = scenario.world,
                  .vocabulary = scenario.model.decoder->vocabulary},
                 std::max<std::int64_t>(1, job.steps - steps_done));
}

/// Where the job begins: what it goes on from, and its data. Nothing has been changed yet.
void check_begin(const NativeScenario& scenario, const std::optional<ResumeChoice>& resume) {
  std::shared_ptr<Checkpoint> checkpoint;
  std::vector<std::string> passed_over;  // told when the ranks choose
  if (resume) checkpoint = checkpoint_to_resume(*resume, scenario.job, scenario.world, passed_over);
  if (!checkpoint) return check_data(scenario, scenario.job.token_start, 0);
  require_loadable(*checkpoint, scenario.model, scenario.job.optimizer);
  check_data(scenario, checkpoint->index().progress.next_token, checkpoint->index().progress.step);
}

/// Checkpoints are days of work: a run that starts does not write among those of another.
void refuse_over_checkpoints(const RunFolder& folder) {
  const std::vector<NamedCheckpoint> there = named_checkpoints(checkpoints_of(folder.root));
  if (there.empty()) return;
  throw Error(
      {.where = checkpoints_of(folder.root).string(),
       .what = fmt::format("has checkpoints of another run, up to step {}", there.back().step),
       .way_out = "give --resume to go on from them, give another -o, or remove them"});
}

/// What an earlier run left where this one writes, so that no figure of it is taken for one of
/// this. A run that goes on keeps its metrics.
void clear_results(const RunFolder& folder, bool goes_on) {
  std::error_code ignored;
  if (!goes_on) std::filesystem::remove(folder.metrics(), ignored);
  for (const auto& path :
       {folder.summary(), folder.hardware(), folder.predicted_summary(), folder.predicted_trace(),
        folder.predicted_buffers(), folder.predicted_choice(), folder.comparison(),
        folder.comparison_text()}) {
    std::filesystem::remove(path, ignored);
  }
  std::filesystem::remove_all(folder.profiles(), ignored);
  for (const auto& entry : std::filesystem::directory_iterator(folder.root, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_trace = name.starts_with("trace.") && name.ends_with(".json.gz");
    const bool is_flight = name.starts_with("flight.") && name.ends_with(".json");
    if (is_trace || is_flight) std::filesystem::remove(entry.path(), ignored);
  }
}

std::optional<HardwareChoice> machine_of(const TrainCommand& options, const Job& job) {
  std::optional<HardwareChoice> hardware = find_hardware(options.cluster, job.device);
  if (hardware && hardware->profile.device != job.device) {
    if (!options.cluster) return std::nullopt;
    throw Error({.where = "--cluster",
                 .what = fmt::format("{} is a {} device, and the job runs on {}",
                                     hardware->profile.name, hardware->profile.device, job.device),
                 .way_out = "give the profile that calibrate wrote here"});
  }
  return hardware;
}

/// The ranks of this host hold an arena each: more than its memory would be taken by force, by the
/// kernel, from whoever is largest.
RoomForArenas host_room(const Mesh& mesh, int first_rank, int ranks_here) {
  const Bytes memory = Bytes{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  if (mesh.pipeline > 1) {
    RoomForArenas room{.where = "memory",
                       .room = fmt::format("{} of this host", rounded_text(memory)),
                       .available = memory};
    for (int i = 0; i < ranks_here; ++i) room.stages.push_back(pipeline_rank(mesh, first_rank + i));
    return room;
  }
  const Bytes each = memory / ranks_here;
  return {.where = "memory",
          .room = ranks_here == 1
                      ? fmt::format("{} of this host", rounded_text(memory))
                      : fmt::format("{} that each of {} ranks has of the {} of this host",
                                    rounded_text(each), ranks_here, rounded_text(memory)),
          .available = each};
}

/// Of one rank's GPU: other ranks have GPUs of their own.
RoomForArenas gpu_room(const Mesh& mesh, int rank, int index) {
  const CudaMemory memory = probe_cuda_memory(index);
  RoomForArenas room{.where = "GPU memory",
                     .room = fmt::format("{} that are free of {}", rounded_text(memory.free),
                                         rounded_text(memory.total)),
                     .available = memory.free};
  if (mesh.pipeline > 1) room.stages = {pipeline_rank(mesh, rank)};
  return room;
}

/// Before the first step, and before older results are taken away.
void check_memory(const NativeScenario& scenario, const Environment& environment, int ranks_here) {
  const bool on_gpu = scenario.job.device == "cuda";
  const int first_here = environment.rank - environment.local_rank;
  require_fit(scenario, {.kind = scenario.job.device},
              on_gpu ? gpu_room(scenario.strategy.mesh, environment.rank, environment.local_rank)
                     : host_room(scenario.strategy.mesh, first_here, ranks_here));
}

void tell_machine(const HardwareProfile& profile, Precision precision, TrainOptions& options) {
  options.peak = peak_of(profile, dtypes_of(precision).compute);
  if (profile.memory.count > 0) options.device_memory = profile.memory;
}

/// What is missing for the device is said before any rank starts.
void check_device(const Job& job) {
  if (job.device == "cuda") make_cuda_device({.use_cublaslt = true});
}

/// Weights that are missing or damaged; found before older results are taken away.
void check_weights(const NativeScenario& scenario) {
  if (scenario.job.weights == StartWeights::pretrained)
    ModelWeights(scenario.job.model, scenario.model);
}

/// What a prediction takes for granted that this run does otherwise.
std::vector<std::string> mismatches(const HardwareProfile& profile, int ranks, int threads) {
  std::vector<std::string> notes;
  if (profile.ranks != ranks || profile.threads_per_rank != threads)
    notes.push_back(fmt::format(
        "the machine was measured with {} ranks of {} threads, and this runs {} of {}: `shardscope "
        "calibrate --ranks {}` measures that",
        profile.ranks, profile.threads_per_rank, ranks, threads, ranks));
  return notes;
}

/// The model is written after the training: what makes that fail is found before it.
void check_model_space(const NativeScenario& scenario) {
  const Job& job = scenario.job;
  if (!job.save_model) return;
  refuse_over_input(job.output / "model", job.model, "-o");
  std::error_code error;
  const auto space = std::filesystem::space(job.output, error);
  const Bytes needed{scenario.model.parameter_elements() * 4};
  if (error || space.available >= static_cast<std::uintmax_t>(needed.count)) return;
  throw Error({.where = job.output.string(),
               .what = fmt::format("{} are free, and the trained model takes {}",
                                   rounded_text(Bytes{static_cast<std::int64_t>(space.available)}),
                                   rounded_text(needed)),
               .way_out = "free some, give another -o, or set save_model to false",
               .code = ExitCode::outside});
}

/// Every rank finds the same, as it has the same figures of the machine.
void deal_out_layers(const TrainCommand& options, ResolvedJob& resolved) {
  const PipelineChoice& choice = resolved.job.pipeline;
  if (!choice.layers.empty() || !needs_prediction(choice.balance)) return;
  NativeScenario scenario = native_scenario_of(resolved.job, resolved.job.ranks, 0);
  const std::optional<HardwareChoice> hardware = machine_of(options, resolved.job);
  deal_out_layers(scenario, hardware ? &hardware->profile : nullptr);
  resolved.job.pipeline = scenario.job.pipeline;
  std::ranges::move(scenario.assumed, std::back_inserter(resolved.assumed));
}

/// Checks the job, and leaves the prediction in the run folder where this machine was measured.
/// While what it returns lives, the run folder is this job's, and says that it starts.
struct Prepared {
  FolderLock lock;
  std::unique_ptr<StartingNotice> starting = {};
};
Prepared prepare(const TrainCommand& options, const ResolvedJob& resolved,
                 const Environment& environment, const std::optional<ResumeChoice>& resume) {
  const bool goes_on = resume.has_value();
  const Job& job = resolved.job;
  NativeScenario scenario = native_scenario_of(job, job.ranks, 0);
  scenario.job.threads = job.threads > 0 ? job.threads : threads_per_rank(job, environment);
  const bool started_here = environment.started_by == StartedBy::user;
  const int ranks_here = started_here ? job.ranks : environment.local_world;
  check_memory(scenario, environment, ranks_here);  // lets go of the GPU, so before it is in use
  check_device(job);
  check_begin(scenario, resume);
  if (!goes_on) check_weights(scenario);
  const std::optional<HardwareChoice> hardware = machine_of(options, job);
  const RunFolder folder{job.output};
  create_folder(folder.root);
  Prepared prepared{.lock = FolderLock(folder.root)};
  check_model_space(scenario);
  if (!goes_on) refuse_over_checkpoints(folder);
  clear_results(folder, goes_on);
  prepared.starting = std::make_unique<StartingNotice>(folder.root, job.steps);
  note_assumptions(options.output, resolved.assumed);
  note_few_micro_batches(setup_of(scenario), options.output);
  if (job.profile.start > job.steps)
    options.output.note(fmt::format("no window: the job's begins with step {}, and the run has {}",
                                    job.profile.start, job.steps));
  if (!hardware) {
    options.output.note(
        "no prediction: this machine was not measured; `shardscope calibrate` does it");
    return prepared;
  }
  std::vector<Prediction> stages = predict_stages(scenario, hardware->profile);
  Prediction& prediction = stages[own_stage(scenario)];
  for (const std::string& note : mismatches(hardware->profile, ranks_here, scenario.job.threads)) {
    options.output.note(note);
    prediction.summary.assumed.push_back(note);
  }
  write_prediction(prediction, "simulate", folder);
  write_stages(stages, own_stage(scenario), folder);
  write_atomically(folder.hardware(), to_json(hardware->profile));
  return prepared;
}

std::int64_t steps_in(const RunFolder& folder) {
  const std::string lines = read_whole(folder.metrics());
  return std::count(lines.begin(), lines.end(), '\n');
}

std::string losses_text(const RunFolder& folder) {
  const std::string lines = read_whole(folder.metrics());
  if (lines.empty()) return "";
  const auto loss_of = [&](std::string_view line) {
    const auto loss = JsonValue::parse(line, folder.metrics().string()).find("loss");
    return loss ? fmt::format("{:.4f}", loss->number()) : "not finite";
  };
  const std::string_view text(lines.data(), lines.size() - 1);
  const std::string_view first = text.substr(0, text.find('\n'));
  const std::string_view last = text.substr(text.rfind('\n') + 1);
  return fmt::format("loss {} to {} in {} steps", loss_of(first), loss_of(last),
                     std::count(lines.begin(), lines.end(), '\n'));
}

std::string result_json(const FinishedRun& run, ExitCode code) {
  const auto side = [](const auto& summary) {
    return summary ? Json::parse(to_json(summary->value, "train")) : Json(nullptr);
  };
  const auto error = error_of(run, [](const Summary& summary) { return summary.step_time; });
  const Json json{{"schema", "shardscope.train/1"},
                  {"run", run.folder.root.string()},
                  {"interrupted", code == ExitCode::interrupted},
                  {"predicted", side(run.predicted)},
                  {"profiled", side(run.profiled)},
                  {"step_time_error_share", error ? Json(*error) : Json(nullptr)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// The text, too, where there is something to compare.
std::string leave_differences(const FinishedRun& run, const RunTraces& traces) {
  const std::optional<Differences> differences = differences_of(run, traces);
  if (!differences) return "";
  const std::string text = to_text(*differences);
  write_atomically(run.folder.comparison_text(), text);
  write_atomically(run.folder.comparison(), to_json(*differences));
  return differences->has_prediction ? "profiled " + text + "\n" : "";
}

/// Pictures and the comparison, once rank 0 has left its summary.
void report(const TrainCommand& options, const Job& job, ExitCode code) {
  if (code == ExitCode::interrupted && !std::filesystem::exists(RunFolder{job.output}.summary())) {
    throw Error({.where = job.output.string(),
                 .what = "interrupted before a step was finished; nothing was trained",
                 .way_out = "start it again",
                 .code = ExitCode::interrupted});
  }
  if (!std::filesystem::exists(RunFolder{job.output}.summary()))
    return options.output.note(
        fmt::format("nothing was left to train: the checkpoint is that of step {} of {}; give "
                    "more --steps to go on",
                    steps_in({job.output}), job.steps));
  const FinishedRun run = read_run({job.output});
  const RunTraces traces = read_traces(run);
  write_figures(run, traces);
  const std::string differences = leave_differences(run, traces);
  if (options.output.json) return print(result_json(run, code));
  const Painter painter = options.output.painter();
  if (code == ExitCode::interrupted)
    print(painter(Paint::warning, fmt::format("interrupted after {} of {} steps",
                                              steps_in(run.folder), job.steps)) +
          "\n");
  print(painter(Paint::bold, fmt::format("{}: {}, {:.0f} tokens/s", run.label(),
                                         losses_text(run.folder), run.summary().tokens_per_s)) +
        "\n\n" + comparison_text(run.predicted, run.profiled, painter) + "\n" + differences +
        fmt::format("run folder {}, pictures in figures/\n", run.folder.root.string()));
}

/// Whether launcher or torchrun start the job again after a failure.
bool is_restart(const Variables& variables) {
  if (variables.contains(restart_variable)) return true;
  const auto count = variables.find("TORCHELASTIC_RESTART_COUNT");
  return count != variables.end() && count->second != "0" && !count->second.empty();
}

/// The place in the data belongs to a checkpoint that does not say it.
void check_next_token(const TrainCommand& options) {
  if (!options.next_token) return;
  if (*options.next_token < 0) {
    throw Error({.where = "--next-token",
                 .what = fmt::format("expected 0 or more, got {}", *options.next_token)});
  }
  const std::filesystem::path given = options.resume.value_or("");
  if (given.empty() || is_there(given / checkpoint_index_name)) {
    throw Error(
        {.where = "--next-token",
         .what = "is only for a checkpoint of another library; ours say where the data goes on",
         .way_out = "leave it out, or give --resume FOLDER of PyTorch's, accelerate's or "
                    "DeepSpeed's"});
  }
}

std::optional<ResumeChoice> resume_choice(const TrainCommand& options, const Variables& variables) {
  check_next_token(options);
  const bool restarts = is_restart(variables);
  if (!options.resume && !restarts) return std::nullopt;
  const std::string given = options.resume.value_or("");
  if (std::filesystem::is_regular_file(given)) {
    throw Error({.where = "--resume",
                 .what = fmt::format("{} is a file, and a checkpoint is a folder", given),
                 .way_out = "give the job before --resume"});
  }
  ResumeChoice choice{
      .newest = restarts || given.empty(), .checkpoint = {}, .may_start_anew = !options.resume};
  if (!given.empty()) choice.checkpoint = std::filesystem::absolute(given).lexically_normal();
  choice.next_token = options.next_token;
  return choice;
}

/// Another start may help against what befell a rank; not against wrong input or numbers.
bool may_help_to_restart(ExitCode code) {
  return code == ExitCode::rank_lost || code == ExitCode::outside;
}

/// What a path leads to. It changes when a file system is mounted or unmounted there.
struct FolderIdentity {
  dev_t device = 0;
  ino_t number = 0;
  bool operator==(const FolderIdentity&) const = default;
};

/// Nothing where there is no such folder.
std::optional<FolderIdentity> identity_of(const std::filesystem::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return std::nullopt;
  return FolderIdentity{.device = status.st_dev, .number = status.st_ino};
}

Error other_run_folder(const std::filesystem::path& run, const Error& cause) {
  return Error({.where = run.string(),
                .what = fmt::format("is no longer the folder that the job began in, so the job is "
                                    "not started again; it ended because of: {}",
                                    cause.what()),
                .way_out = "go on with --resume once its file system is mounted",
                .code = ExitCode::outside});
}

ExitCode launch_ranks(const TrainCommand& options, const Job& job) {
  const std::int64_t most = options.max_restarts.value_or(0);
  const std::optional<FolderIdentity> begun_in = identity_of(job.output);
  for (std::int64_t restarts = 0;; ++restarts) {
    try {
      return launch({.ranks = job.ranks, .arguments = own_arguments(), .log_folder = job.output});
    } catch (const Error& error) {
      if (restarts >= most || !may_help_to_restart(error.code())) throw;
      // A run anew would write below the mount point, on another disk.
      if (identity_of(job.output) != begun_in) throw other_run_folder(job.output, error);
      options.output.note(fmt::format("{}\nrestart {} of {}, from the newest whole checkpoint",
                                      error.what(), restarts + 1, most));
      ::setenv(restart_variable, std::to_string(restarts + 1).c_str(), 1);
    }
  }
}

void check_restarts(const TrainCommand& options, const Environment& environment) {
  if (!options.max_restarts) return;
  if (*options.max_restarts < 0 || *options.max_restarts > most_restarts) {
    throw Error(
        {.where = "--max-restarts",
         .what = fmt::format("expected 0 to {}, got {}", most_restarts, *options.max_restarts)});
  }
  const bool ours =
      environment.started_by == StartedBy::user || environment.started_by == StartedBy::shardscope;
  if (!ours) {
    throw Error({.where = "--max-restarts",
                 .what = fmt::format("{} starts the ranks here", name_of(environment.started_by)),
                 .way_out = "let it restart them (torchrun --max-restarts), with --resume where it "
                            "does not say that it does"});
  }
}

ExitCode run_train(const TrainCommand& options) {
  if (options.help_job) return print(job_help()), ExitCode::done;
  const Variables variables = process_variables();
  const Environment environment = read_environment(variables);
  check_restarts(options, environment);
  const std::optional<ResumeChoice> resume = resume_choice(options, variables);
  ResolvedJob resolved = resolved_job(options, environment);
  deal_out_layers(options, resolved);
  const Job& job = resolved.job;
  const bool is_rank = environment.started_by != StartedBy::user;
  const bool launched_by_us = environment.started_by == StartedBy::shardscope;
  const bool leads = !launched_by_us && environment.rank == 0;
  TrainOptions rank_options{.quiet = options.output.quiet,
                            .results_in_files = options.output.json,
                            .assumed = resolved.assumed,
                            .resume = resume};
  std::optional<Prepared> prepared;
  try {
    if (is_rank && environment.rank == 0) {
      if (const auto hardware = machine_of(options, job))
        tell_machine(hardware->profile, job.strategy.precision, rank_options);
    }
    if (leads) prepared.emplace(prepare(options, resolved, environment, resume));
  } catch (const Error& error) {
    if (is_rank && leads) refuse_to_join(environment, error);  // they would wait for this rank
    throw;
  }
  const ExitCode code =
      is_rank ? train(job, environment, rank_options) : launch_ranks(options, job);
  const bool has_results = code == ExitCode::done || code == ExitCode::interrupted;
  if (leads && has_results) report(options, job, code);
  return code;
}

void declare_training_options(Command& command, TrainCommand& options) {
  command.heading("Training");
  command.flag("--help-job", options.help_job, "lists every key of a job file with its default");
  command.option("--ranks", options.ranks, {"N", "processes to start on this host"});
  command.option("--steps", options.job.steps, {"N", "optimizer steps"});
  command.options("--data", options.data, {"PATH...", "text files, folders or token files"});
  command.option("--threads", options.threads,
                 {"N", "compute threads of a rank (default: cores / ranks)"});
  command.option("--communicator", options.communicator,
                 {"auto|shared_memory|mpi|nccl", "default: auto"});
  command.option("--device", options.device,
                 {"auto|cpu|cuda", "default: auto, a GPU if there is one, else the CPU"});
  command.option(
      "--cluster", options.cluster,
      {"FILE",
       "hardware profile for the prediction (default: the result of calibrate on this machine)"});
  command.option("--profile-steps", options.profile_steps,
                 {"N", "last steps whose operations are timed for the trace (default: 10)"});
  command.option(
      "--profile", options.profile,
      {"START[:STEPS[:EVERY]]",
       "opens a profiling window of STEPS steps at step START, and again every EVERY steps"});
  command.optional_value("--resume", options.resume,
                         {"[CHECKPOINT]",
                          "goes on from the newest whole checkpoint of the run folder, or from "
                          "this one; under another "
                          "strategy or number of ranks, too"});
  command.option(
      "--next-token", options.next_token,
      {"N",
       "with --resume of another library's checkpoint: global token offset at which the "
       "data goes on (default: after the tokens of as many steps of this job as were done)"});
  command.option("--max-restarts", options.max_restarts,
                 {"N",
                  "starts the job again so often after a rank is lost or the disk fails, from "
                  "the newest whole checkpoint (default: 0)"});
  command.flag("--check", options.check,
               "checks memory in every step: canaries, poison and counted allocations");
}

}  // namespace

void declare_train(Command& command) {
  const auto options = std::make_shared<TrainCommand>();
  command.positional("JOB", options->file, "a job file; --help-job lists its keys");
  declare_job_options(command, options->job);
  declare_native_only(command);
  declare_training_options(command, *options);
  declare_output_options(command, options->output);
  command.option("-o", options->folder, {"PATH", "run folder (default: runs/<job>)"});
  command.examples(
      {{"shardscope train job.json --ranks 2",
        "two processes on this host; predicts first if calibrate ran here"},
       {"shardscope train job.json --ranks 2 --strategy zero1 --steps 20 -o runs/zero1",
        "the same job otherwise"},
       {"mpirun -n 4 shardscope train job.json --strategy full_shard",
        "mpirun or srun starts the ranks"},
       {"torchrun --nproc-per-node 4 --no-python shardscope train job.json",
        "torchrun starts the ranks; if one is lost, the exit code is 4 and flight.<rank>.json says "
        "why"},
       {"shardscope train job.json --ranks 4 --resume",
        "goes on from the newest checkpoint of runs/job, here with more ranks; the job's key "
        "checkpoint.every makes a run leave them"},
       {"shardscope train job.json --ranks 4 --resume accelerate_checkpoint",
        "goes on from what PyTorch (torch.distributed.checkpoint, FSDP), accelerate or DeepSpeed "
        "saved"},
       {"shardscope train --model gpt2/ --data text/ --batch 2 --seq 128 --steps 10",
        "without a job file"}});
  command.action([options] { return run_train(*options); });
}

}  // namespace shardscope
