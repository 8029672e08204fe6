// shardscope record: runs a PyTorch script on a machine without a GPU, and predicts it.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "backend/recorder/recorded_process.h"
#include "cli/figures.h"
#include "cli/hardware_choice.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/prediction.h"
#include "cli/recorded_costs.h"
#include "cli/recorded_order.h"
#include "cli/recorded_prediction.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

struct RecordOptions {
  std::optional<std::string> cluster, folder, time, ranks, beside;
  std::optional<std::int64_t> world, rank, tokens;
  bool model_only = false;
  std::vector<std::string> command;
  OutputOptions output;
};

/// For logs that nobody keeps.
class LogsFolder {
 public:
  LogsFolder() {
    std::string name = (fs::temp_directory_path() / "shardscope.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw Error({.where = name,
                   .what = "cannot be made: " + std::generic_category().message(errno),
                   .code = ExitCode::outside});
    path_ = name;
  }
  LogsFolder(const LogsFolder&) = delete;
  LogsFolder& operator=(const LogsFolder&) = delete;
  ~LogsFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

int checked(const std::optional<std::int64_t>& value, std::string_view name, std::int64_t low,
            std::int64_t high) {
  const std::int64_t number = value.value_or(low);
  if (number < low || number > high)
    throw Error({.where = std::string(name),
                 .what = fmt::format("expected {} to {}, got {}", low, high, number)});
  return static_cast<int>(number);
}

RecordedTime time_of(const std::optional<std::string>& text) {
  if (!text || *text == "zero") return RecordedTime::zero;
  if (*text == "sync") return RecordedTime::sync;
  if (*text == "model") return RecordedTime::model;
  throw Error(
      {.where = "--time", .what = fmt::format("\"{}\" is none of zero, sync, model", *text)});
}

/// Of "0,8", of --rank, else 0.
std::vector<int> ranks_of(const RecordOptions& options, int world) {
  if (!options.ranks) return {checked(options.rank, "--rank", 0, world - 1)};
  if (options.rank)
    throw Error(
        {.where = "--ranks", .what = "stands beside --rank", .way_out = "give one of them"});
  std::vector<int> ranks;
  const std::string& text = *options.ranks;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    int rank = -1;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, rank);
    if (error != std::errc() || stop != text.data() + end || rank < 0 || rank >= world)
      throw Error({.where = "--ranks",
                   .what = fmt::format("expected ranks of 0 to {} with commas between, got {}",
                                       world - 1, text)});
    if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
    begin = end + 1;
  }
  return ranks;
}

RecordedDevice device_of(const HardwareProfile& profile) {
  if (profile.device != "cuda")
    throw Error({.where = "--cluster",
                 .what = fmt::format("{} has no GPUs", profile.name),
                 .way_out = "name one that has, such as h100_sxm"});
  RecordedDevice device{.name = profile.gpu ? "NVIDIA " + profile.gpu->name : profile.name,
                        .memory = profile.memory,
                        .l2_cache = {}};
  if (profile.compute_capability > 0) device.compute_capability = profile.compute_capability;
  if (profile.gpu) {
    device.multiprocessors = profile.gpu->multiprocessors;
    device.l2_cache = profile.gpu->l2_cache;
  }
  return device;
}

/// "events.NUMBER.txt" of each process.
std::vector<fs::path> logs_in(const fs::path& folder) {
  std::vector<fs::path> logs;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string number = entry.path().stem().extension().string();
    if (entry.path().stem().stem() == "events" && entry.path().extension() == ".txt" &&
        number.size() > 1 && number.find_first_not_of("0123456789", 1) == std::string::npos)
      logs.push_back(entry.path());
  }
  return logs;
}

struct FoundLog {
  fs::path file;
  int rank = 0, world = 1;
  std::size_t device_lines = 0;
};

std::size_t count_of(std::string_view word, std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++count;
  return count;
}

/// Workers that load data have logs of operators alone. A process that never said its rank is the
/// only one that counts.
FoundLog look_at(const fs::path& file, const RecordedPlace& usual) {
  const std::string text = read_whole(file);
  FoundLog log{.file = file, .rank = usual.rank, .world = usual.world};
  for (const std::string_view kind :
       {"\tkernel\t", "\tgemm\t", "\tdnn\t", "\tcopy\t", "\tset\t", "\tnccl\t"})
    log.device_lines += count_of(kind, text);
  constexpr std::string_view told = "\trank\t";
  if (const std::size_t at = text.rfind(told); at != std::string::npos)
    std::sscanf(text.c_str() + at + told.size(), "%d\t%d", &log.rank, &log.world);
  return log;
}

/// By rank the log of the process that did most on the device; empty: none used one.
std::map<int, FoundLog> main_logs(const fs::path& folder, const RecordedPlace& usual) {
  std::map<int, FoundLog> mains;
  for (const fs::path& file : logs_in(folder)) {
    const FoundLog log = look_at(file, usual);
    if (log.device_lines == 0) continue;
    FoundLog& main = mains[log.rank];
    if (log.device_lines > main.device_lines) main = log;
  }
  return mains;
}

/// Of a command that has left nothing: the disk is full, it ended before, or it never meant to.
Error nothing_recorded(const fs::path& folder, int exit_code) {
  std::error_code ignored;
  for (const fs::path& log : logs_in(folder))
    if (fs::file_size(log, ignored) == 0)
      return Error({.where = folder.string(),
                    .what = "nothing was recorded: there is no room for the log",
                    .way_out = "free some space there, or choose another folder with -o",
                    .code = ExitCode::outside});
  if (exit_code != 0)
    return Error({.where = folder.string(),
                  .what = fmt::format(
                      "nothing was recorded: the command ended with exit code {} before it used a "
                      "CUDA device",
                      exit_code),
                  .way_out = "its own message is above",
                  .code = ExitCode::outside});
  return Error({.where = folder.string(),
                .what = "the command used no CUDA device",
                .way_out = "is torch installed there with CUDA, and does the script use \"cuda\"?",
                .code = ExitCode::no});
}

/// One log for each rank stays, those of its helpers go. Completes the settings' ranks and world.
void keep_main_logs(const fs::path& folder, RecordingSettings& settings) {
  std::map<int, FoundLog> mains = main_logs(folder, settings.place);
  if (mains.empty()) throw nothing_recorded(folder, settings.exit_code);
  if (!mains.contains(settings.place.rank)) settings.place.rank = mains.begin()->first;
  settings.ranks = {settings.place.rank};
  for (const auto& [rank, log] : mains) {
    if (rank != settings.place.rank) settings.ranks.push_back(rank);
    settings.place.world = std::max({settings.place.world, log.world, rank + 1});
  }
  std::error_code error;
  for (const auto& [rank, log] : mains) {
    RecordingSettings of_rank = settings;
    of_rank.place.rank = rank;
    fs::rename(log.file, events_file(folder, of_rank), error);
    if (error)
      throw Error({.where = events_file(folder, of_rank).string(),
                   .what = "cannot be written: " + error.message(),
                   .code = ExitCode::outside});
  }
  for (const fs::path& log : logs_in(folder)) fs::remove(log, error);
}

fs::path folder_of(const RecordOptions& options) {
  if (options.folder) return *options.folder;
  for (int number = 1;; ++number) {
    fs::path path = fmt::format("runs/recorded_{}", number);
    if (!is_there(path)) return path;
  }
}

void leave_prediction(const RecordedRun& run, const fs::path& path,
                      const HardwareProfile& profile) {
  const RunFolder folder{path};
  write_settings(run.settings, run.recording, path);
  write_atomically(folder.hardware(), to_json(profile));
  write_prediction(run.prediction, "record", folder);
  write_figures(
      {&run.prediction.trace}, {nullptr},
      fmt::format("recorded on rank {} of {}", run.settings.place.rank, run.settings.place.world),
      folder);
}

/// What --beside asks for.
struct Earlier {
  std::string folder;
  std::vector<RecordedRun> runs;  ///< on the machine of the new recording
};

std::optional<Earlier> earlier_of(const RecordOptions& options, const HardwareProfile& profile) {
  if (!options.beside) return std::nullopt;
  return Earlier{.folder = *options.beside,
                 .runs = predict_recordings(*options.beside, profile, options.output)};
}

void print_runs(const std::vector<RecordedRun>& runs, const std::optional<Earlier>& earlier,
                const HardwareProfile& profile, const OutputOptions& output) {
  if (!output.json) {
    note_assumptions(output, runs.front().prediction.summary.assumed);
    print(recorded_text(runs, profile, output.painter()));
    if (earlier) print(order_text(earlier->runs, runs, earlier->folder));
    return;
  }
  std::string text = recorded_json(runs, "record");
  if (earlier) text = with_order(text, earlier->runs, runs, earlier->folder);
  print(text + "\n");
}

constexpr int interrupted = 128 + 2;
constexpr int refused = 86;  ///< by the recorder's own part in the command, which has said why

/// The command finds a device to ask. What it leaves, an export of a model, is its own.
ExitCode run_model_only(const RecordOptions& options, const HardwareProfile& profile) {
  if (options.folder || options.world || options.rank || options.ranks || options.time ||
      options.tokens || options.beside || options.output.json)
    throw Error({.where = "--model-only",
                 .what = "nothing is recorded with it",
                 .way_out = "give no other option than --cluster; export_model.py's own -o names "
                            "the export"});
  const LogsFolder logs;
  const int code = run_recorded(
      {.arguments = options.command, .folder = logs.path(), .device = device_of(profile)});
  if (code == interrupted) return ExitCode::interrupted;
  if (code == refused) return ExitCode::outside;
  if (code == 0) return ExitCode::done;
  options.output.note(fmt::format("the command ended with exit code {}", code));
  return ExitCode::outside;
}

ExitCode run_record(const RecordOptions& options) {
  const HardwareProfile profile =
      require_hardware(options.cluster ? options.cluster : std::optional<std::string>("h100_sxm"))
          .profile;
  if (options.model_only) return run_model_only(options, profile);
  constexpr std::int64_t most_ranks = 1 << 20;
  const int world = checked(options.world, "--world", 1, most_ranks);
  const std::vector<int> ranks = ranks_of(options, world);
  const int tokens = checked(options.tokens, "--tokens-per-batch", 0, INT32_MAX);
  const std::optional<Earlier> earlier = earlier_of(options, profile);
  const RecordedCosts costs(profile, world);
  RecordedCommand command{
      .arguments = options.command,
      .folder = folder_of(options),
      .device = device_of(profile),
      .world = world,
      .ranks = ranks,
      .may_run_all = world > 1 && !options.ranks && !options.rank,
      .time = time_of(options.time),
      .costs = [&costs](std::string_view question) { return costs.answer(question); }};
  const int node = profile.ranks_per_node > 0 ? profile.ranks_per_node : 8;
  command.device.per_node = world > 1 ? std::min(world, node) : 1;
  if (!options.cluster) options.output.note("assumed: h100_sxm (--cluster)");
  if (options.beside) refuse_over_input(command.folder, *options.beside, "-o");
  create_folder(command.folder);
  for (const fs::path& log : logs_in(command.folder)) fs::remove(log);
  const int code = run_recorded(command);
  // A script may end with this code, too; it has a log then.
  if (code == refused && main_logs(command.folder, {}).empty()) return ExitCode::outside;
  if (code == interrupted && main_logs(command.folder, {}).empty()) {
    options.output.note("nothing was recorded: interrupted before the command used a CUDA device");
    return ExitCode::interrupted;
  }
  RecordingSettings facts{.command = options.command,
                          .place = {.world = world, .rank = ranks.front()},
                          .ranks = ranks,
                          .time = options.time.value_or("zero"),
                          .cluster = profile.name,
                          .exit_code = code,
                          .tokens = tokens};
  keep_main_logs(command.folder, facts);
  if (code == interrupted)
    options.output.note("interrupted; what the command did until then is recorded");
  else if (code != 0)
    options.output.note(
        fmt::format("the command ended with exit code {}; what it did is recorded", code));
  const std::vector<RecordedRun> runs =
      predict_recordings(facts, command.folder, profile, options.output);
  const RecordedRun& run = runs.front();
  leave_prediction(run, command.folder, profile);
  print_runs(runs, earlier, profile, options.output);
  options.output.note(fmt::format("left in {}", command.folder.string()));
  if (code == interrupted) return ExitCode::interrupted;
  const bool is_whole =
      std::ranges::all_of(runs, [](const RecordedRun& one) { return one.recording.is_whole; });
  if (code == 0 && !is_whole)
    options.output.note(
        "the recording has no end: the disk was full, or the process was killed or replaced; the "
        "part that is there is predicted");
  if (code != 0 || !is_whole) return ExitCode::outside;
  return run.prediction.summary.fits ? ExitCode::done : ExitCode::no;
}

}  // namespace

void declare_record(Command& command) {
  const auto options = std::make_shared<RecordOptions>();
  command.command_line(options->command, "python train.py, torchrun or accelerate launch");
  command.heading("Where");
  command.option("--cluster", options->cluster,
                 {"FILE|NAME", "hardware profile of GPUs (default: h100_sxm)"});
  command.option("--world", options->world,
                 {"N", "number of ranks of the job; one process represents them (default: 1)"});
  command.option("--rank", options->rank, {"R", "the rank to record (default: 0)"});
  command.option(
      "--ranks", options->ranks,
      {"R,...",
       "the ranks to record, one process each; they exchange their data. Example: one rank of each "
       "pipeline stage"});
  command.option(
      "--time", options->time,
      {"zero|sync|model",
       "when work on the device ends: at once; when the host waits for it; or when it would end on "
       "--cluster. This decides when the caching allocator can reuse a block (default: zero)"});
  command.option("--tokens-per-batch", options->tokens,
                 {"N", "tokens of one step of all ranks, for the throughput"});
  command.option(
      "--beside", options->beside,
      {"FOLDER",
       "an earlier recording of the command with another --cluster or --time; the answer says "
       "whether both recordings have the same operations in the same order"});
  command.flag(
      "--model-only", options->model_only,
      "record nothing; show export_model.py a simulated GPU, for a model whose code asks for the "
      "GPU's type");
  command.option("-o", options->folder, {"PATH", "run folder (default: one under runs/)"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope record -- python train.py", "memory and step time of a script on one H100"},
       {"shardscope record --world 64 --cluster h100_sxm -o runs/r -- torchrun --nproc-per-node 8 "
        "train.py",
        "rank 0 of 64, in one process"},
       {"shardscope record --world 64 --ranks 0,32 --time model -- torchrun --nproc-per-node 8 "
        "pipeline.py",
        "one rank of each of two pipeline stages, in the time of an H100"},
       {"shardscope record --world 8 -- accelerate launch --config_file fsdp.yaml train.py",
        "as accelerate starts it"},
       {"shardscope record --cluster a100_80gb --time model --beside runs/r -- python train.py",
        "a second pass with other costs: is the order the same as in runs/r"},
       {"shardscope record --model-only -- python export_model.py --model mixtral -o model.json",
        "exports a model that asks for a GPU when it runs"},
       {"shardscope simulate --recording runs/r --cluster a100_80gb",
        "the same recording on other GPUs"}});
  command.action([options] { return run_record(*options); });
}

}  // namespace shardscope
