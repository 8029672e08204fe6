#include "cli/recorded_prediction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/summary_text.h"
#include "cli/terminal.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/json_reader.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
constexpr std::string_view schema = "shardscope.recording/1";

fs::path settings_file(const fs::path& folder) { return folder / "recording.json"; }

RecordingSettings read_settings(const fs::path& folder) {
  const JsonValue file = JsonValue::read_file(settings_file(folder));
  if (file.at("schema").string() != schema)
    throw file.at("schema").error("is another version's", "record again");
  RecordingSettings facts;
  for (const JsonValue& word : file.at("command").elements())
    facts.command.push_back(word.string());
  constexpr std::int64_t most_ranks = 1 << 20;
  facts.place.world = static_cast<int>(file.at("world").integer(1, most_ranks));
  facts.place.rank = static_cast<int>(file.at("rank").integer(0, facts.place.world - 1));
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

std::vector<std::string> doubts(const RecordingSettings& facts, const Recording& recording) {
  std::vector<std::string> texts{
      "results of large operators were not computed: losses, routing and lengths that follow from "
      "them are invented"};
  if (facts.place.world > 1)
    texts.push_back(fmt::format("rank {} stands for all {}", facts.place.rank, facts.place.world));
  if (recording.unseen_kernels > 0)
    texts.push_back(fmt::format(
        "{} of {} kernels belong to no operator of PyTorch or Triton: their time is that "
        "of a launch",
        recording.unseen_kernels, recording.kernels));
  if (recording.tuning_kernels > 0)
    texts.push_back(
        fmt::format("{} launches that tune kernels are left out", recording.tuning_kernels));
  if (!recording.is_whole) texts.emplace_back("the script did not end by itself");
  if (recording.schedule.steps.size() < 2)
    texts.emplace_back("only one step was recorded, which the first allocations are in");
  return texts;
}

}  // namespace

fs::path events_file(const fs::path& folder) { return folder / "events.txt"; }

void write_settings(const RecordingSettings& facts, const Recording& recording,
                    const fs::path& folder) {
  Json json{{"schema", schema},
            {"command", facts.command},
            {"world", facts.place.world},
            {"rank", facts.place.rank},
            {"time", facts.time},
            {"cluster", facts.cluster},
            {"exit_code", facts.exit_code},
            {"tokens_per_step", facts.tokens}};
  json.update(recording_json(recording));
  constexpr int indent = 2;
  write_atomically(settings_file(folder),
                   json.dump(indent, ' ', true, Json::error_handler_t::replace) + "\n");
}

RecordedRun predict_recording(const RecordingSettings& facts, const fs::path& folder,
                              const HardwareProfile& profile) {
  const EventLog log(events_file(folder));
  RecordedRun run{
      .settings = facts, .recording = read_recording(log, facts.place), .prediction = {}};
  Schedule schedule = run.recording.schedule;
  schedule.assumed = doubts(facts, run.recording);
  const Dtype dtype = compute_dtype(schedule);
  run.prediction = predict(std::move(schedule),
                           {.strategy = "recorded",
                            .runtime = "pytorch",
                            .precision = std::string(name_of(dtype)),
                            .compute = dtype == Dtype::float32 ? Dtype::float32 : Dtype::bfloat16,
                            .tokens_per_step = facts.tokens},
                           profile);
  return run;
}

RecordedRun predict_recording(const fs::path& folder, const HardwareProfile& profile) {
  return predict_recording(read_settings(folder), folder, profile);
}

std::string recorded_text(const RecordedRun& run, const HardwareProfile& profile,
                          const Painter& painter) {
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
  return text + (failure.empty() ? "" : failure + "\n") +
         summary_text(run.prediction.summary, painter);
}

std::string recorded_json(const RecordedRun& run, std::string_view verb) {
  Json json = Json::parse(to_json(run.prediction.summary, std::string(verb)));
  json["recording"] = recording_json(run.recording);
  json["recording"]["command"] = run.settings.command;
  json["recording"]["rank"] = run.settings.place.rank;
  json["recording"]["exit_code"] = run.settings.exit_code;
  constexpr int indent = 2;
  return json.dump(indent, ' ', true, Json::error_handler_t::replace);
}

}  // namespace shardscope
