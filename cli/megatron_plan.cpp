#include "cli/megatron_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "backend/job/folder_lock.h"
#include "cli/hardware_choice.h"
#include "cli/megatron_scenario.h"
#include "cli/plan_inputs.h"
#include "cli/progress_line.h"
#include "cli/refused_option.h"
#include "cli/table.h"
#include "core/base/grouped.h"
#include "core/config/config_file.h"
#include "core/config/megatron/command_line.h"
#include "core/config/megatron/model_shape.h"
#include "core/format/atomic_file.h"
#include "core/model/huggingface.h"
#include "sim/planner/megatron/layouts.h"
#include "sim/planner/megatron/search.h"
#include "traces/memory_fit.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;
using planner::MegatronAnswer;
using planner::MegatronPlace;
using planner::MegatronQuestion;

constexpr std::string_view script_name = "megatron.sh";

std::optional<ConfigFile> command_line_of(const PlanOptions& options) {
  if (!options.sharding.config) return std::nullopt;
  ConfigFile file = read_config_file(*options.sharding.config);
  return file.kind == ConfigKind::megatron ? std::optional(std::move(file)) : std::nullopt;
}

void refuse(bool given, std::string_view option, std::string_view what) {
  refuse_if(given, option, fmt::format("{} in a plan of Megatron-LM", what));
}

void refuse_options(const PlanOptions& options) {
  refuse(options.asked_objective() != planner::Objective::time, "--objective",
         "layouts are ranked by time");
  refuse(options.job.strategy.has_value(), "--strategy",
         "layouts with and without the distributed optimizer are weighed");
  refuse(options.job.batch.has_value(), "--batch", "micro-batches are chosen");
  refuse(options.lengths.has_value(), "--lengths", "lengths are not weighed");
  refuse(options.host_memory.has_value(), "--host-memory", "nothing is offloaded");
  refuse(options.clusters.size() > 1, "--cluster", "one cluster is weighed");
  refuse(options.pytorch.float8.has_value(), "--float8", "no FP8 is weighed");
  refuse(options.pytorch.expert_load.has_value(), "--expert-load", "loads are equal");
  const std::pair<bool, std::string_view> of_whole_training[] = {
      {options.train_tokens.has_value(), "--train-tokens"},
      {options.at_least.has_value(), "--at-least"},
      {options.deadline_days.has_value(), "--deadline"},
      {options.budget.has_value(), "--budget"},
      {!options.prices.empty(), "--price-per-gpu-hour"}};
  for (const auto& [given, option] : of_whole_training)
    refuse(given, option, "the whole training is not weighed");
}

/// Puts together the question.
class Asker {
 public:
  explicit Asker(const PlanOptions& options) : options_(options) {
    if (!options.clusters.empty()) options_.cluster = options.clusters.front();
    hardware_ = require_hardware(options_.cluster);
  }

  MegatronQuestion question() {
    refuse_options(options_);
    refuse_foreign_to_megatron({.job = options_.job,
                                .sharding = options_.sharding,
                                .pytorch = options_.pytorch,
                                .place = options_.place,
                                .gpu = {}});
    MegatronQuestion question{.training = {}, .profile = profile(), .margin = {}};
    question.margin = margin_of(options_.margin, question.profile.memory);
    question.places = options_.asked_places().value_or(question.places);
    take_model(question);
    take_world(question);
    take_batch(question);
    take_precision(question);
    if (options_.pytorch.attention)
      question.training.attention = megatron_attention(*options_.pytorch.attention);
    return question;
  }

  std::string hardware_line() const {
    return fmt::format("hardware: {} ({})", hardware_.profile.name, hardware_.profile.source);
  }
  const std::string& model_name() const { return model_; }

 private:
  HardwareProfile profile() const {
    HardwareProfile profile = hardware_.profile;
    if (options_.device_memory)
      profile.memory = parse_bytes(*options_.device_memory, "--device-memory");
    return profile;
  }

  void take_model(MegatronQuestion& question) {
    question.origin.otherwise = "--runtime megatron";
    if (const auto file = command_line_of(options_)) {
      megatron::Arguments arguments = megatron::read_arguments(file->text, file->name());
      if (const std::string unknown = unknown_flags(arguments); !unknown.empty())
        options_.output.note(
            fmt::format("{}: flags that are not known here: {}", file->name(), unknown));
      question.training = arguments.settings;
      question.assumed = std::move(arguments.assumed);
      question.origin = std::move(arguments.origin);
      has_model_ = arguments.has_model;
      has_world_ = arguments.has_world;
      is_by_file_ = true;
      model_ = fmt::format("a decoder of {} layers", question.training.shape.layers);
    }
    if (options_.job.seq) {
      question.training.take_length(std::clamp<std::int64_t>(*options_.job.seq, 0, 1 << 30));
      question.origin.places["seq-length"] = "--seq";
    }
    if (options_.job.model) {
      const JsonValue config =
          JsonValue::read_file(config_path(*options_.job.model), DuplicateKeys::last_wins);
      model_ = model_of_config(config).class_name;
      megatron::take_model(config, question.training);
      question.origin = {.otherwise = "--model"};
    } else if (!has_model_) {
      throw Error({.where = "--model",
                   .what = "no model was given",
                   .way_out = "give a Hugging Face folder or config.json, or a command line of "
                              "Megatron-LM in --config"});
    }
    take_megatron_dropout(options_.pytorch.dropout, options_.job.model.has_value(),
                          question.training);
    if (question.training.shape.seq == 0)
      throw Error({.where = "--seq",
                   .what = "the tokens of a sequence were not given",
                   .way_out = "give for example --seq 4096"});
    choose_again(question);
  }

  /// What the layouts say, whatever the file does.
  void choose_again(MegatronQuestion& question) const {
    const megatron::Settings& s = question.training;
    const auto assume = [&](std::string_view text) { question.assumed.emplace_back(text); };
    if (is_by_file_ && s.recompute != megatron::Recompute::none)
      assume("recomputation by what fits, and not the command line's");
    if (s.float8 != megatron::Float8::none) assume("FP8 in all layouts, as the command line says");
    question.training.recompute = megatron::Recompute::none;
    question.training.by_block = question.training.distributes_recomputed = false;
    question.training.recompute_layers = 1;
    question.training.overlaps_tensor = false;
  }

  void take_world(MegatronQuestion& question) {
    const std::vector<int> worlds = options_.asked_worlds();
    refuse(worlds.size() > 1, "--world", "one number of ranks is weighed");
    if (!worlds.empty()) {
      question.origin.places["nproc-per-node"] = "--world";
      question.training.world = worlds.front();
    } else if (!has_world_) {
      question.training.world = ranks_of_a_node(question.profile);
      question.assumed.push_back(
          fmt::format("{} ranks, one node of the cluster (--world)", question.training.world));
    }
  }

  void take_batch(MegatronQuestion& question) const {
    megatron::Settings& training = question.training;
    const std::int64_t seq = training.shape.seq;
    constexpr std::int64_t most = 1 << 24;
    if (options_.job.tokens_per_batch) {
      const std::int64_t tokens = *options_.job.tokens_per_batch;
      if (tokens < seq || tokens % seq != 0 || tokens / seq > most)
        throw Error({.where = "--tokens-per-batch",
                     .what = fmt::format("{} tokens are no 1 to {} sequences of {} tokens", tokens,
                                         most, seq),
                     .way_out = fmt::format("give a multiple of {}", seq)});
      training.global_batch = tokens / seq;
      question.origin.places["global-batch-size"] = "--tokens-per-batch";
    }
    if (training.global_batch > 0) return;
    throw Error({.where = "--tokens-per-batch",
                 .what = "the tokens of one optimizer step were not given",
                 .way_out = "give sequences x tokens of a sequence, as in --tokens-per-batch "
                            "1048576, or --global-batch-size in the command line"});
  }

  void take_precision(MegatronQuestion& question) const {
    const std::vector<TrainingPrecision> asked = options_.asked_precisions();
    refuse(asked.size() > 1, "--precision", "one precision is weighed");
    if (asked.empty() && is_by_file_) return;
    if (asked.empty()) question.assumed.emplace_back("precision bf16_mixed (--precision)");
    const std::string name(name_of(asked.empty() ? TrainingPrecision::bf16_mixed : asked.front()));
    question.training.parameters = megatron_dtype(name);
    question.training.gradients = Dtype::float32;
  }

  PlanOptions options_;
  HardwareChoice hardware_;
  std::string model_;
  bool has_model_ = false, has_world_ = false, is_by_file_ = false;
};

Json settings_json(const megatron::Settings& s) {
  Json pipeline;
  if (s.pipeline > 1)
    pipeline = {{"schedule", s.stages_per_rank > 1 ? "Interleaved1F1B" : "1F1B"},
                {"stages_per_rank", s.stages_per_rank},
                {"layers", s.stage_layers()}};
  return {{"runtime", megatron_runtime},
          {"strategy", s.distributed_optimizer ? "zero1" : "no_shard"},
          {"mesh", planner::megatron_mesh_text(s)},
          {"batch", s.micro_batch},
          {"accumulate", s.micro_batches()},
          {"checkpointing", name_of(s.recompute)},
          {"recomputed_layers_at_once",
           s.recompute == megatron::Recompute::full ? Json(s.recompute_layers) : Json()},
          {"overlaps_gradients", s.overlaps_gradients},
          {"overlaps_tensor", s.overlaps_tensor},
          {"pipeline", std::move(pipeline)}};
}

Json place_json(const MegatronPlace& place) {
  Json json = Json::parse(to_json(place.summary, "plan"));
  json.erase("schema");
  json["rank"] = place.rank;
  json["place"] = place.place;
  json["why"] = place.why.empty() ? Json() : Json(place.why);
  json["settings"] = settings_json(place.settings);
  json["needed_memory_bytes"] = needed_memory(place.summary).count;
  return json;
}

/// Places than which no other is both faster and smaller.
Json pareto_json(const MegatronAnswer& answer) {
  Json places = Json::array();
  std::optional<Bytes> least;
  for (const MegatronPlace& place : answer.places) {
    const Bytes needed = needed_memory(place.summary);
    if (least && needed >= *least) continue;
    least = needed;
    places.push_back(place.place);
  }
  return places;
}

std::string answer_json(const MegatronAnswer& answer, const std::string& script, double elapsed_s) {
  Json candidates = Json::array(), dropped = Json::array();
  for (const MegatronPlace& place : answer.places) candidates.push_back(place_json(place));
  for (const planner::MegatronLoser& loser : answer.losers)
    dropped.push_back({{"strategy", "megatron " + planner::megatron_mesh_text(loser.settings)},
                       {"settings", planner::megatron_settings_text(loser.settings)},
                       {"why", loser.why}});
  Json chosen;
  if (!answer.places.empty())
    chosen = {{"place", 1}, {"format", "megatron"}, {"file", script_name}, {"text", script}};
  const Json json{{"schema", "shardscope.plan/1"},
                  {"candidates", std::move(candidates)},
                  {"chosen", std::move(chosen)},
                  {"pareto", pareto_json(answer)},
                  {"given", Json()},
                  {"dropped", std::move(dropped)},
                  {"choices", answer.layouts},
                  {"simulated", answer.predicted},
                  {"interrupted", answer.interrupted},
                  {"elapsed_s", elapsed_s}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string places_text(const MegatronAnswer& answer, const Painter& painter) {
  Table table({{"place", Align::right},
               {"mesh"},
               {"settings"},
               {"step", Align::right},
               {"tokens/s", Align::right},
               {"memory", Align::right},
               {"why not the first"}});
  for (const MegatronPlace& place : answer.places)
    table.row({std::to_string(place.place), planner::megatron_mesh_text(place.settings),
               planner::megatron_settings_text(place.settings),
               rounded_text(place.summary.step_time),
               grouped(static_cast<std::int64_t>(place.summary.tokens_per_s)),
               rounded_text(needed_memory(place.summary)), place.why});
  return table.text(painter);
}

std::string losers_text(const MegatronAnswer& answer) {
  constexpr std::size_t most = 8;
  std::string text = "\n";
  const std::size_t shown = std::min(most, answer.losers.size());
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("  {}, {}: {}\n", planner::megatron_mesh_text(answer.losers[i].settings),
                        planner::megatron_settings_text(answer.losers[i].settings),
                        answer.losers[i].why);
  if (answer.losers.size() > shown)
    text += fmt::format("  and {} other meshes (--json has all)\n", answer.losers.size() - shown);
  return answer.losers.empty() ? "" : text;
}

std::string progress_text(const planner::MegatronProgress& progress) {
  const std::string best = progress.best
                               ? fmt::format(", best so far {} a step: {}",
                                             rounded_text(*progress.best), progress.best_text)
                               : "";
  return fmt::format("{} layouts, {} predicted{}", progress.layouts, progress.predicted, best);
}

MegatronAnswer answer_to(const MegatronQuestion& question, const OutputOptions& output,
                         const std::stop_token& stop) {
  ProgressLine line(output);
  return planner::plan_megatron(question, {.on_progress =
                                               [&](const planner::MegatronProgress& progress) {
                                                 line.update(progress_text(progress));
                                               },
                                           .stop = stop});
}

ExitCode code_of(const MegatronAnswer& answer) {
  if (answer.interrupted) return ExitCode::interrupted;
  return answer.places.empty() ? ExitCode::no : ExitCode::done;
}

}  // namespace

bool asks_megatron(const PlanOptions& options) {
  if (!options.runtimes) return command_line_of(options).has_value();
  const std::vector<std::string> words = words_of_list(*options.runtimes);
  if (std::ranges::find(words, megatron_runtime) == words.end()) {
    if (const auto file = command_line_of(options))
      throw Error({.where = "--config",
                   .what = fmt::format("{} is a command line of Megatron-LM, and --runtime says {}",
                                       file->name(), *options.runtimes),
                   .way_out = "leave --runtime out"});
    return false;
  }
  if (words.size() > 1)
    throw Error({.where = "--runtime",
                 .what = "megatron is not weighed beside other runtimes",
                 .way_out = "give --runtime megatron alone, and the others in a second plan"});
  return true;
}

ExitCode run_megatron_plan(const PlanOptions& options, const std::stop_token& stop) {
  Asker asker(options);
  const MegatronQuestion question = asker.question();
  std::optional<FolderLock> lock;
  if (options.folder) {
    create_folder(*options.folder);
    lock.emplace(*options.folder);
  }
  const auto begin = std::chrono::steady_clock::now();
  const MegatronAnswer answer = answer_to(question, options.output, stop);
  const double elapsed_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::string script;
  if (!answer.places.empty())
    script = megatron::command_line(answer.places.front().settings, question.profile.ranks_per_node,
                                    fmt::format("{} on {} ranks of {}", asker.model_name(),
                                                question.training.world, question.profile.name));
  const std::string json = answer_json(answer, script, elapsed_s);
  if (options.folder) {
    const std::filesystem::path folder(*options.folder);
    write_atomically(folder / "plan.json", json);
    if (!script.empty()) write_atomically(folder / script_name, script);
  }
  if (options.output.json) {
    print(json);
  } else {
    const Painter painter = options.output.painter();
    note_assumptions(options.output, question.assumed);
    print(painter(Paint::bold,
                  fmt::format("megatron: {} on {} ranks, {} sequences of {} tokens a step\n{}",
                              asker.model_name(), question.training.world,
                              question.training.global_batch, question.training.shape.seq,
                              asker.hardware_line())) +
          "\n\n");
    if (!answer.places.empty())
      print(places_text(answer, painter));
    else
      print(answer.interrupted ? "stopped before a layout was predicted\n" : "no layout fits\n");
    if (answer.is_tight && !answer.interrupted)
      print("none leaves the margin: these fit, and are tight\n");
    print(losers_text(answer));
    print(fmt::format("\n{} layouts weighed, {} of them predicted in full, {:.1f} s{}\n",
                      grouped(static_cast<std::int64_t>(answer.layouts)),
                      grouped(static_cast<std::int64_t>(answer.predicted)), elapsed_s,
                      answer.interrupted ? ", stopped before the end" : ""));
  }
  if (options.folder)
    options.output.note(fmt::format("left in {}", *options.folder));
  else if (!script.empty() && !options.output.json)
    options.output.note(fmt::format("-o FOLDER writes the first as {}", script_name));
  return code_of(answer);
}

}  // namespace shardscope
