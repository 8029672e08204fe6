// shardscope record: runs a PyTorch script on a machine without a GPU, and predicts it.
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
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
#include "cli/prediction.h"
#include "cli/recorded_prediction.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

struct RecordOptions {
  std::optional<std::string> cluster, folder, time;
  std::optional<std::int64_t> world, rank, tokens;
  std::vector<std::string> command;
  OutputOptions output;
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
  throw Error({.where = "--time", .what = fmt::format("\"{}\" is none of zero, sync", *text)});
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

/// What a process put on the device. Workers that load data have logs of operators alone.
std::size_t device_lines(const fs::path& log) {
  const std::string text = read_whole(log);
  std::size_t count = 0;
  for (const std::string_view kind :
       {"\tkernel\t", "\tgemm\t", "\tdnn\t", "\tcopy\t", "\tset\t", "\tnccl\t"})
    for (std::size_t at = text.find(kind); at != std::string::npos; at = text.find(kind, at + 1))
      ++count;
  return count;
}

/// The log of the process that did most on the device stays, those of its helpers go.
void keep_main_log(const fs::path& folder) {
  fs::path main;
  std::size_t most = 0;
  for (const fs::path& log : logs_in(folder)) {
    const std::size_t lines = device_lines(log);
    if (lines <= most) continue;
    most = lines;
    main = log;
  }
  if (main.empty())
    throw Error({.where = folder.string(),
                 .what = "the command used no CUDA device",
                 .way_out = "is torch installed there with CUDA, and does the script use \"cuda\"?",
                 .code = ExitCode::no});
  std::error_code error;
  fs::rename(main, events_file(folder), error);
  if (error)
    throw Error({.where = events_file(folder).string(),
                 .what = "cannot be written: " + error.message(),
                 .code = ExitCode::outside});
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

ExitCode run_record(const RecordOptions& options) {
  const HardwareProfile profile =
      require_hardware(options.cluster ? options.cluster : std::optional<std::string>("h100_sxm"))
          .profile;
  constexpr std::int64_t most_ranks = 1 << 20;
  const int world = checked(options.world, "--world", 1, most_ranks);
  const int rank = checked(options.rank, "--rank", 0, world - 1);
  RecordedCommand command{.arguments = options.command,
                          .folder = folder_of(options),
                          .device = device_of(profile),
                          .world = world,
                          .rank = rank,
                          .time = time_of(options.time)};
  const int node = profile.ranks_per_node > 0 ? profile.ranks_per_node : 8;
  command.device.per_node = world > 1 ? std::min(world, node) : 1;
  if (!options.cluster) options.output.note("assumed: h100_sxm (--cluster)");
  create_folder(command.folder);
  for (const fs::path& log : logs_in(command.folder)) fs::remove(log);
  const int code = run_recorded(command);
  constexpr int interrupted = 128 + 2;
  keep_main_log(command.folder);
  const RecordingSettings facts{
      .command = options.command,
      .place = {.world = world, .rank = rank},
      .time = options.time.value_or("zero"),
      .cluster = profile.name,
      .exit_code = code,
      .tokens = checked(options.tokens, "--tokens-per-batch", 0, INT32_MAX)};
  if (code != 0)
    options.output.note(
        fmt::format("the command ended with exit code {}; what it did is recorded", code));
  const RecordedRun run = predict_recording(facts, command.folder, profile);
  leave_prediction(run, command.folder, profile);
  if (options.output.json) {
    print(recorded_json(run, "record") + "\n");
  } else {
    note_assumptions(options.output, run.prediction.summary.assumed);
    print(recorded_text(run, profile, options.output.painter()));
  }
  options.output.note(fmt::format("left in {}", command.folder.string()));
  if (code == interrupted) return ExitCode::interrupted;
  if (code != 0) return ExitCode::outside;
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
                 {"N", "ranks of the job, for which one process stands (default: 1)"});
  command.option("--rank", options->rank, {"R", "which of them it is (default: 0)"});
  command.option("--time", options->time,
                 {"zero|sync",
                  "work on the device ends at once, or when the host waits for it; decides which "
                  "blocks the caching allocator can use again (default: zero)"});
  command.option("--tokens-per-batch", options->tokens,
                 {"N", "tokens of a step of all ranks, for the throughput"});
  command.option("-o", options->folder, {"PATH", "run folder (default: one under runs/)"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope record -- python train.py", "memory and step time of a script on one H100"},
       {"shardscope record --world 64 --cluster h100_sxm -o runs/r -- torchrun --nproc-per-node 8 "
        "train.py",
        "rank 0 of 64, in one process"},
       {"shardscope record --world 8 -- accelerate launch --config_file fsdp.yaml train.py",
        "as accelerate starts it"},
       {"shardscope simulate --recording runs/r --cluster a100_80gb",
        "the same recording on other GPUs"}});
  command.action([options] { return run_record(*options); });
}

}  // namespace shardscope
