#include "cli/recorded_prediction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "cli/progress_line.h"
#include "cli/summary_text.h"
#include "cli/terminal.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "core/schedule/host_layout.h"
#include "sim/allocator/allocator_settings.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/peer_arrivals.h"

namespace shardscope {
void require_recording(const std::filesystem::path& folder) {
  if (is_there(folder / "recording.json")) return;
  throw Error({.where = folder.string(),
               .what = "no recording is there",
               .way_out = "give the folder that `shardscope record -o FOLDER` has left"});
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
constexpr std::string_view schema = "shardscope.recording/1";

fs::path settings_file(const fs::path& folder) { return folder / "recording.json"; }

RecordingSettings read_settings(const fs::path& folder) {
  require_recording(folder);
  const JsonValue file = JsonValue::read_file(settings_file(folder));
  if (file.at("schema").string() != schema)
    throw file.at("schema").error("is another version's", "record again");
  RecordingSettings facts;
  for (const JsonValue& word : file.at("command").elements())
    facts.command.push_back(word.string());
  constexpr std::int64_t most_ranks = 1 << 20;
  facts.place.world = static_cast<int>(file.at("world").integer(1, most_ranks));
  facts.place.rank = static_cast<int>(file.at("rank").integer(0, facts.place.world - 1));
  facts.ranks = {facts.place.rank};
  if (file.has("ranks")) {
    facts.ranks.clear();
    for (const JsonValue& rank : file.at("ranks").elements())
      facts.ranks.push_back(static_cast<int>(rank.integer(0, facts.place.world - 1)));
  }
  facts.time = file.at("time").string();
  facts.cluster = file.at("cluster").string();
  facts.exit_code = static_cast<int>(file.at("exit_code").integer());
  facts.tokens = file.at("tokens_per_step").integer(0);
  return facts;
}

Json recording_json(const Recording& recording) {
  Json json{{"torch", recording.torch},
            {"ended", recording.is_whole},
            {"steps", recording.schedule.steps.size()},
            {"kernels", recording.kernels},
            {"kernels_of_no_operator", recording.unseen_kernels},
            {"tuning_kernels", recording.tuning_kernels},
            {"unknown_functions", recording.unknown},
            {"invented", recording.invented},
            {"timed_answers", recording.timed_answers},
            {"allocator", recording.allocator},
            {"peaks", nullptr}};
  if (recording.peaks)
    json["peaks"] = {{"allocated_bytes", recording.peaks->allocated.count},
                     {"active_bytes", recording.peaks->active.count},
                     {"reserved_bytes", recording.peaks->reserved.count}};
  return json;
}

/// What most flops are computed in.
Dtype compute_dtype(const Schedule& schedule) {
  std::map<Dtype, std::int64_t> flops;
  for (const Operation& operation : schedule.operations)
    flops[operation.dtype] += operation.flops.count;
  Dtype most = Dtype::float32;
  std::int64_t largest = 0;
  for (const auto& [dtype, count] : flops)
    if (count > largest) {
      most = dtype;
      largest = count;
    }
  return most;
}

Json rank_json(const RecordedRun& run, std::string_view verb) {
  const Json one = Json::parse(to_json(run.prediction.summary, std::string(verb)));
  return {{"rank", run.settings.place.rank},
          {"step_time_ns", one["step_time_ns"]},
          {"time", one["time"]},
          {"memory", one["memory"]},
          {"recording", recording_json(run.recording)}};
}

/// A few of them, for people.
std::string first_of(const std::vector<std::string>& texts) {
  constexpr std::size_t most = 4;
  const std::vector<std::string> shown(texts.begin(), texts.begin() + std::min(most, texts.size()));
  return fmt::format("{}{}", fmt::join(shown, "; "),
                     texts.size() > most ? fmt::format("; {} more", texts.size() - most) : "");
}

bool is_transfer(const Operation& operation) {
  return operation.kind == OperationKind::send || operation.kind == OperationKind::receive;
}

/// How a rank was played beside the others.
struct Companions {
  PeerArrivals peers;
  std::string endless_wait;  ///< of ranks that cannot be played together; else empty
};

/// What is not known of waiting for other ranks; empty: nothing.
std::string doubt_of_waiting(const Recording& recording, const Companions& others) {
  const std::vector<Operation>& all = recording.schedule.operations;
  if (!others.endless_wait.empty())
    return fmt::format(
        "played together, the recorded ranks would wait for each other without end ({}): each is "
        "played alone, and does not wait for the others",
        others.endless_wait);
  if (std::ranges::none_of(all, is_transfer)) return {};
  if (recording.schedule.steps.empty()) return {};
  const IndexRange last = recording.schedule.steps.back().operations;
  std::size_t alone = 0, transfers = 0;
  for (std::uint32_t i = last.begin; i < last.end; ++i) {
    if (!is_transfer(all[i])) continue;
    ++transfers;
    if (others.peers.empty() || others.peers[i] == meets_nobody) ++alone;
  }
  if (alone == 0) return {};
  return fmt::format(
      "{} of {} sends and receives of a step are with ranks that were not recorded: the wait for "
      "them (a pipeline's bubble) is not counted; record one rank of each stage (--ranks)",
      alone, transfers);
}

/// Of operators on tensors of the host; empty: a step has none.
std::string doubt_of_host_work(const Schedule& schedule, const HardwareProfile& profile) {
  if (schedule.steps.empty()) return {};
  const IndexRange last = schedule.steps.back().operations;
  const auto first = schedule.operations.begin();
  const auto count = std::count_if(first + last.begin, first + last.end, [](const Operation& one) {
    return one.kind == OperationKind::host;
  });
  if (count == 0) return {};
  return fmt::format("{} operator{} of a step run{} on the host; {}", count, count > 1 ? "s" : "",
                     count > 1 ? "" : "s", offload_timing(profile));
}

/// Of copies that the host waits for; empty: none, or the profile knows how long they take.
std::string doubt_of_pageable_copies(const Schedule& schedule, const HardwareProfile& profile) {
  if (schedule.steps.empty() || (profile.pageable_to_device && profile.pageable_to_host)) return {};
  const IndexRange last = schedule.steps.back().operations;
  const auto first = schedule.operations.begin();
  const auto count = std::count_if(first + last.begin, first + last.end, [&](const Operation& one) {
    return is_pageable(schedule, one);
  });
  if (count == 0) return {};
  return fmt::format(
      "{} cop{} of a step {} memory that is not locked: timed as the others ({} has no "
      "pageable_to_device)",
      count, count > 1 ? "ies" : "y", count > 1 ? "use" : "uses", profile.name);
}

/// What the actions hold at most, by requests in PyTorch's blocks of 512 bytes; `held` before and
/// after them.
Bytes most_held(const Schedule& schedule, IndexRange actions, Bytes& held) {
  constexpr std::int64_t block = 512;
  Bytes most = held;
  for (std::uint32_t i = actions.begin; i < actions.end; ++i) {
    const HostAction& action = schedule.program.actions[i];
    if (action.kind != HostActionKind::allocate && action.kind != HostActionKind::free) continue;
    const std::int64_t asked = schedule.buffers[action.subject].bytes.count;
    const Bytes bytes{(asked + block - 1) / block * block};
    held = action.kind == HostActionKind::allocate ? held + bytes : held - bytes;
    most = std::max(most, held);
  }
  return most;
}

/// Steps are what is predicted. What set-up holds before them the device must have, too.
std::string doubt_of_setup(const Schedule& schedule) {
  if (schedule.steps.empty()) return {};
  Bytes held;
  const std::uint32_t begin = schedule.steps.front().actions.begin;
  const Bytes setup = most_held(schedule, {0, begin}, held);
  const Bytes steps = most_held(schedule, {begin, schedule.steps.back().actions.end}, held);
  if (setup <= steps) return {};
  return fmt::format(
      "set-up holds {} before the first step, and the steps at most {}: the device "
      "needs room for set-up, too",
      rounded_text(setup), rounded_text(steps));
}

/// All else that times decide is played again; what the script did by an answer is not.
std::string doubt_of_order(const RecordingSettings& facts, const Recording& recording,
                           const HardwareProfile& profile) {
  const bool is_timed = facts.time == "model";
  if (recording.timed_answers == 0 || (is_timed && facts.cluster == profile.name)) return {};
  return fmt::format(
      "the script asked the device {} time{} whether work was over or how long it took, and was "
      "answered as {}: where it acts by that, record it again with --cluster {} --time model",
      recording.timed_answers, recording.timed_answers > 1 ? "s" : "",
      is_timed ? "on " + facts.cluster : "with --time " + facts.time, profile.name);
}

std::vector<std::string> doubts(const RecordingSettings& facts, const Recording& recording,
                                const Companions& others, const HardwareProfile& profile) {
  std::vector<std::string> texts{
      "results of large operators were not computed: losses, routing and lengths that follow from "
      "them are invented"};
  if (!recording.invented.empty())
    texts.push_back(
        fmt::format("invented values that the script read: {}", first_of(recording.invented)));
  if (facts.place.world > std::ssize(facts.ranks))
    texts.push_back(fmt::format("rank{} {} stand{} for all {}", facts.ranks.size() > 1 ? "s" : "",
                                fmt::join(facts.ranks, ", "), facts.ranks.size() > 1 ? "" : "s",
                                facts.place.world));
  for (std::string& doubt : std::array{doubt_of_waiting(recording, others),
                                       doubt_of_host_work(recording.schedule, profile),
                                       doubt_of_order(facts, recording, profile),
                                       doubt_of_pageable_copies(recording.schedule, profile),
                                       doubt_of_setup(recording.schedule)})
    if (!doubt.empty()) texts.push_back(std::move(doubt));
  if (recording.unseen_kernels > 0)
    texts.push_back(fmt::format(
        "{} of {} kernels belong to no operator of PyTorch or Triton: their time is that "
        "of a launch",
        recording.unseen_kernels, recording.kernels));
  if (recording.tuning_kernels > 0)
    texts.push_back(
        fmt::format("{} launches that tune kernels are left out", recording.tuning_kernels));
  if (!recording.is_whole)
    texts.emplace_back(
        "the recording has no end (the script was killed, the disk was full, or the file was cut): "
        "the part that is there is predicted");
  if (recording.schedule.steps.size() < 2)
    texts.emplace_back("only one step was recorded, which the first allocations are in");
  return texts;
}

std::string line_of(const RecordedRun& run) {
  const Summary& summary = run.prediction.summary;
  return fmt::format("rank {}: {} a step, of it idle {}, allocated {}, reserved {}\n",
                     run.settings.place.rank, rounded_text(summary.step_time),
                     rounded_text(summary.time.idle), rounded_text(summary.memory.peak_allocated),
                     rounded_text(summary.memory.peak_reserved));
}

}  // namespace

fs::path events_file(const fs::path& folder, const RecordingSettings& settings) {
  const int rank = settings.place.rank;
  if (settings.ranks.empty() || rank == settings.ranks.front()) return folder / "events.txt";
  return folder / fmt::format("events_rank{}.txt", rank);
}

void write_settings(const RecordingSettings& facts, const Recording& recording,
                    const fs::path& folder) {
  Json json{{"schema", schema},
            {"command", facts.command},
            {"world", facts.place.world},
            {"rank", facts.place.rank},
            {"ranks", facts.ranks},
            {"time", facts.time},
            {"cluster", facts.cluster},
            {"exit_code", facts.exit_code},
            {"tokens_per_step", facts.tokens}};
  json.update(recording_json(recording));
  constexpr int indent = 2;
  write_atomically(settings_file(folder),
                   json.dump(indent, ' ', true, Json::error_handler_t::replace) + "\n");
}

namespace {

/// Of torch's allocator in the script; what is not simulated is said.
AllocatorSettings allocator_of(const Recording& recording, std::vector<std::string>& assumed) {
  try {
    return parse_allocator_settings(recording.allocator, "PYTORCH_ALLOC_CONF");
  } catch (const Error& error) {
    assumed.push_back(fmt::format("PYTORCH_ALLOC_CONF=\"{}\" of the script does not count: {}",
                                  recording.allocator, error.parts().what));
    return {};
  }
}

/// Of the settings' rank, which waits for these peers.
RecordedRun predict_rank(const RecordingSettings& facts, Recording recording, Companions others,
                         const HardwareProfile& profile) {
  RecordedRun run{.settings = facts, .recording = std::move(recording), .prediction = {}};
  Schedule& schedule = run.recording.schedule;
  schedule.assumed = doubts(facts, run.recording, others, profile);
  const AllocatorSettings allocator = allocator_of(run.recording, schedule.assumed);
  const Dtype dtype = compute_dtype(schedule);
  run.prediction = predict(std::move(schedule),
                           {.strategy = "recorded",
                            .runtime = std::string(recorded_runtime),
                            .precision = std::string(name_of(dtype)),
                            .compute = dtype == Dtype::float32 ? Dtype::float32 : Dtype::bfloat16,
                            .tokens_per_step = facts.tokens,
                            .allocator = allocator,
                            .peers = std::move(others.peers)},
                           profile);
  run.recording.schedule = std::move(run.prediction.schedule);
  return run;
}

/// Of each schedule's rank. Ranks that wait for each other often are played often: after two
/// seconds a line says so.
std::vector<Companions> companions_of(std::span<const Schedule> schedules,
                                      const HardwareProfile& profile, const OutputOptions& output) {
  std::vector<Companions> all(schedules.size());
  if (schedules.size() < 2) return all;
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds patience{2};
  ProgressLine line(output);
  const Clock::time_point begin = Clock::now();
  RanksTogether together = peer_arrivals(schedules, profile, [&](std::size_t sweeps) {
    if (Clock::now() - begin > patience)
      line.update(fmt::format("finding how long {} ranks wait for each other: played {} times",
                              schedules.size(), sweeps));
  });
  for (std::size_t i = 0; i < all.size(); ++i)
    if (together)
      all[i].peers = std::move(together.arrivals[i]);
    else
      all[i].endless_wait = together.endless_wait;
  return all;
}

/// The settings' own rank first.
std::vector<RecordingSettings> settings_of_ranks(const RecordingSettings& facts) {
  std::vector<RecordingSettings> all{facts};
  for (const int rank : facts.ranks) {
    if (rank == facts.place.rank) continue;
    all.push_back(facts);
    all.back().place.rank = rank;
  }
  return all;
}

}  // namespace

std::vector<RecordedRun> predict_recordings(const RecordingSettings& facts, const fs::path& folder,
                                            const HardwareProfile& profile,
                                            const OutputOptions& output) {
  const std::vector<RecordingSettings> settings = settings_of_ranks(facts);
  std::vector<Recording> recordings;
  std::vector<Schedule> schedules;
  for (const RecordingSettings& one : settings) {
    recordings.push_back(read_recording(events_file(folder, one), one.place));
    schedules.push_back(std::move(recordings.back().schedule));
  }
  std::vector<Companions> companions = companions_of(schedules, profile, output);
  std::vector<RecordedRun> runs;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    recordings[i].schedule = std::move(schedules[i]);
    runs.push_back(
        predict_rank(settings[i], std::move(recordings[i]), std::move(companions[i]), profile));
  }
  return runs;
}

std::vector<RecordedRun> predict_recordings(const fs::path& folder, const HardwareProfile& profile,
                                            const OutputOptions& output,
                                            std::optional<std::int64_t> rank) {
  RecordingSettings settings = read_settings(folder);
  if (rank) {
    if (std::ranges::find(settings.ranks, *rank) == settings.ranks.end())
      throw Error({.where = "--rank",
                   .what = fmt::format("rank {} is not in {}, which has {}", *rank, folder.string(),
                                       fmt::join(settings.ranks, ", "))});
    settings.place.rank = static_cast<int>(*rank);
  }
  return predict_recordings(settings, folder, profile, output);
}

std::string recorded_text(const std::vector<RecordedRun>& runs, const HardwareProfile& profile,
                          const Painter& painter) {
  const RecordedRun& run = runs.front();
  const Recording& recording = run.recording;
  std::string text = painter(
      Paint::bold, fmt::format("{} as rank {} of {}, {} step{}, {} kernels, torch {}",
                               fmt::join(run.settings.command, " "), run.settings.place.rank,
                               run.settings.place.world, recording.schedule.steps.size(),
                               recording.schedule.steps.size() == 1 ? "" : "s", recording.kernels,
                               recording.torch));
  text += fmt::format("\nhardware: {} ({})\n\n", profile.name, profile.source);
  if (recording.peaks)
    text +=
        fmt::format("PyTorch's own allocator reported: allocated {}, active {}, reserved {}\n",
                    rounded_text(recording.peaks->allocated), rounded_text(recording.peaks->active),
                    rounded_text(recording.peaks->reserved));
  if (!recording.unknown.empty())
    text += fmt::format("CUDA functions that are not simulated (they returned 0): {}\n",
                        fmt::join(recording.unknown, ", "));
  text += "\n";
  const std::string failure = out_of_memory_text(run.prediction.summary, painter);
  text += (failure.empty() ? "" : failure + "\n") + summary_text(run.prediction.summary, painter);
  for (const RecordedRun& other : std::span(runs).subspan(1)) text += line_of(other);
  return text;
}

std::string recorded_json(const std::vector<RecordedRun>& runs, std::string_view verb) {
  const RecordedRun& run = runs.front();
  Json json = Json::parse(to_json(run.prediction.summary, std::string(verb)));
  json["invented"] = run.recording.invented;
  json["recording"] = recording_json(run.recording);
  json["recording"]["command"] = run.settings.command;
  json["recording"]["rank"] = run.settings.place.rank;
  json["recording"]["ranks"] = run.settings.ranks;
  json["recording"]["time"] = run.settings.time;
  json["recording"]["exit_code"] = run.settings.exit_code;
  if (runs.size() > 1)
    for (const RecordedRun& one : runs) json["ranks"].push_back(rank_json(one, verb));
  constexpr int indent = 2;
  return json.dump(indent, ' ', true, Json::error_handler_t::replace);
}

}  // namespace shardscope
