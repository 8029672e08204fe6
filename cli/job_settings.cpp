#include "cli/job_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/model/huggingface.h"
#include "core/native/job.h"
#include "sim/planner/choice_json.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

/// An option of text by its name in a job's "pytorch".
struct TextOption {
  std::string_view name;
  std::optional<std::string>& value;
};

std::vector<TextOption> text_options(const JobSettings& settings) {
  ShardingOptions& sharding = settings.sharding;
  PytorchOptions& pytorch = settings.pytorch;
  return {{"accelerate", sharding.accelerate},
          {"deepspeed", sharding.deepspeed},
          {"training_arguments", sharding.training_arguments},
          {"fsdp", sharding.fsdp},
          {"fsdp_config", sharding.fsdp_config},
          {"accelerate_version", sharding.accelerate_version},
          {"config", sharding.config},
          {"optimizer", settings.job.optimizer},
          {"precision", settings.job.precision},
          {"checkpointing", settings.job.checkpointing},
          {"wrap", settings.job.wrap},
          {"pytorch", pytorch.pytorch},
          {"transformers", pytorch.transformers},
          {"attention", pytorch.attention},
          {"optimizer_implementation", pytorch.optimizer_implementation},
          {"dropout", pytorch.dropout},
          {"loss", pytorch.loss},
          {"float8", pytorch.float8},
          {"compile", pytorch.compile},
          {"expert_load", pytorch.expert_load},
          {"liger", pytorch.liger},
          {"optimizer_in_backward", pytorch.optimizer_in_backward},
          {"activation_offloading", pytorch.activation_offloading},
          {"peft", pytorch.fine_tuning.peft},
          {"peft_version", pytorch.fine_tuning.peft_version},
          {"quantization", pytorch.fine_tuning.quantization},
          {"prepare_kbit", pytorch.fine_tuning.prepare_kbit},
          {"base_dtype", pytorch.fine_tuning.base_dtype},
          {"trainable_dtype", pytorch.fine_tuning.trainable_dtype},
          {"unsloth", pytorch.fine_tuning.unsloth},
          {"allocator", pytorch.allocator}};
}

constexpr std::string_view ranks_per_node = "ranks_per_node";
constexpr std::string_view use_orig_params = "use_orig_params";
/// --mesh with an axis tensor, which a job's own mesh does not have.
constexpr std::string_view divided_mesh = "mesh";
/// transformers' Trainer makes the optimizer: of a plan's place, which names no file of it.
constexpr std::string_view by_trainer = "by_trainer";
/// Units of several blocks, prefetch and offload of a plan's place, which no option says: its
/// choice.json, relative to the job.
constexpr std::string_view place_of_plan = "choice";

Error wrong(const JobOptions& job, std::string_view name, std::string what, std::string way_out) {
  return Error({.where = fmt::format("{}: pytorch.{}", *job.job, name),
                .what = std::move(what),
                .way_out = std::move(way_out)});
}

/// Options that would change a place, which is taken whole.
void refuse_changes(const JobOptions& job) {
  const std::pair<bool, std::string_view> changes[] = {
      {job.batch.has_value(), "--batch"},
      {job.accumulate.has_value(), "--accumulate"},
      {job.strategy.has_value(), "--strategy"},
      {job.mesh.has_value(), "--mesh"},
      {job.wrap.has_value(), "--wrap"},
      {job.checkpointing.has_value(), "--checkpointing"},
      {job.prefetch.has_value(), "--prefetch"},
      {job.offload.has_value(), "--offload"},
      {job.memory_budget.has_value(), "--memory-budget"},
      {job.precision.has_value(), "--precision"},
      {job.tokens_per_batch.has_value(), "--tokens-per-batch"},
      {job.pipeline_schedule.has_value(), "--pipeline-schedule"},
      {job.pipeline_stages.has_value(), "--pipeline-stages"},
      {job.pipeline_checkpoint.has_value(), "--pipeline-checkpoint"},
      {job.stages_per_rank.has_value(), "--stages-per-rank"}};
  for (const auto& [is_given, name] : changes)
    if (is_given)
      throw Error({.where = std::string(name),
                   .what = fmt::format("{} is a place of a plan, which is taken whole", *job.job),
                   .way_out = "leave the option out, or give --model and the settings instead of "
                              "--job"});
}

void take(const JobSettings& settings, const std::string& name, const std::string& value) {
  if (name == place_of_plan) {
    settings.sharding.choice = (fs::path(*settings.job.job).parent_path() / value).string();
    return;
  }
  if (name == use_orig_params || name == by_trainer) {
    if (value != "true" && value != "false")
      throw wrong(settings.job, name, fmt::format("expected true or false, got \"{}\"", value), "");
    (name == by_trainer ? settings.pytorch.by_trainer : settings.sharding.use_orig_params) =
        value == "true";
    return;
  }
  if (name == divided_mesh) {
    if (!settings.job.mesh) settings.job.mesh = value;
    return;
  }
  if (name == ranks_per_node) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size())
      throw wrong(settings.job, name, fmt::format("expected a number, got \"{}\"", value), "");
    if (!settings.sharding.ranks_per_node) settings.sharding.ranks_per_node = number;
    return;
  }
  for (const TextOption& option : text_options(settings)) {
    if (option.name != name) continue;
    if (!option.value) option.value = value;
    return;
  }
  throw wrong(settings.job, name, "no such option",
              "`shardscope simulate --help` names them; write _ for - and leave -- out");
}

/// Whether an option of the job says how its own runtime shards, so that another runtime or file on
/// the command line takes its place.
bool is_of_the_jobs_runtime(std::string_view name, const ShardingOptions& sharding) {
  constexpr std::string_view files[] = {
      "accelerate", "accelerate_version", "deepspeed", "training_arguments", "fsdp", "fsdp_config",
      "config",     place_of_plan,        divided_mesh};
  if (std::ranges::find(files, name) != std::end(files)) return true;
  if (name == use_orig_params) return sharding.runtime != "fsdp1";
  return sharding.names_file() && (name == "wrap" || (name == "precision" && !sharding.deepspeed));
}

/// What the job says of the training counts under another runtime, too.
void take_under_another_runtime(const JobSettings& settings, const Job& job) {
  if (settings.sharding.runtime == name_of(Runtime::native)) return;
  // Which file is named must not change while the options are taken.
  const ShardingOptions asked = settings.sharding;
  std::vector<std::string> unused;
  for (const auto& [name, value] : job.pytorch)
    if (is_of_the_jobs_runtime(name, asked))
      unused.push_back("pytorch." + name);
    else
      take(settings, name, value);
  if (!unused.empty())
    settings.sharding.recipe_notes.push_back(
        fmt::format("{} of {} not used", fmt::join(unused, ", "), *settings.job.job));
}

/// Options as they were given, those that a key of the job cannot say.
std::vector<std::pair<std::string, std::string>> given(const JobSettings& settings) {
  std::vector<std::pair<std::string, std::string>> options;
  const bool file = settings.sharding.names_file();
  for (const TextOption& option : text_options(settings)) {
    const bool is_key = option.name == "precision" || option.name == "checkpointing";
    const bool is_native_wrap =
        option.name == "wrap" && !option.value.value_or("").starts_with("units");
    if (!option.value || (is_key && !file) || is_native_wrap) continue;
    options.emplace_back(option.name, *option.value);
  }
  if (settings.sharding.ranks_per_node)
    options.emplace_back(ranks_per_node, std::to_string(*settings.sharding.ranks_per_node));
  if (settings.sharding.choice) options.emplace_back(place_of_plan, *settings.sharding.choice);
  if (settings.sharding.use_orig_params) options.emplace_back(use_orig_params, "true");
  if (settings.pytorch.by_trainer && !file) options.emplace_back(by_trainer, "true");
  if (settings.job.mesh && has_axis_tensor(*settings.job.mesh))
    options.emplace_back(divided_mesh, *settings.job.mesh);
  return options;
}

/// Where a run folder has copies of the files that an option names.
fs::path place_of_copies(const RunFolder& folder, std::string_view option) {
  return folder.settings() / option;
}

/// Of a configuration or what it names, which are texts of a few kilobytes.
constexpr std::uintmax_t largest_copied_bytes = std::uintmax_t{8} << 20;

bool may_be_copied(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error) && fs::file_size(file, error) <= largest_copied_bytes;
}

void copy_text(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (fs::equivalent(from, to, ignored)) return;
  create_folder(to.parent_path());
  write_atomically(to, read_whole(from));
}

/// Whether a file of this name stays below the folder that it is copied to.
bool stays_below(const fs::path& name) {
  return name.is_relative() && std::ranges::find(name, "..") == name.end();
}

bool is_settings_file(const fs::path& name) {
  const fs::path suffix = name.extension();
  return suffix == ".json" || suffix == ".yaml" || suffix == ".yml";
}

/// A configuration may name others, relative to here or to itself, as the DeepSpeed file of
/// accelerate's.
void copy_what_it_names(const fs::path& file, const fs::path& to) {
  constexpr std::string_view between = " \t\r\n\"',:[]{}=";
  const std::string text = read_whole(file);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(between, begin), text.size());
    const fs::path name = text.substr(begin, end - begin);
    begin = end + 1;
    if (!is_settings_file(name) || !stays_below(name) || name == file.filename()) continue;
    for (const fs::path& one : {name, file.parent_path() / name}) {
      if (!may_be_copied(one)) continue;
      copy_text(one, to / name);
      break;
    }
  }
}

/// Copies the files that options name, so that the run needs no file outside of its folder.
void copy_files(const RunFolder& folder,
                std::vector<std::pair<std::string, std::string>>& options) {
  for (auto& [name, value] : options) {
    if (std::ranges::find(pytorch_files, name) == pytorch_files.end()) continue;
    std::error_code ignored;
    const bool is_folder = fs::is_directory(value, ignored);
    const fs::path file = is_folder ? fs::path(value) / "adapter_config.json" : fs::path(value);
    if (!may_be_copied(file)) continue;
    const fs::path to = place_of_copies(folder, name);
    copy_what_it_names(file, to);
    copy_text(file, to / file.filename());
    value = (to / file.filename()).string();
  }
}

/// A run has the config.json of a model that is gone.
void take_config_of_run(const Job& job, JobOptions& options) {
  const RunFolder folder{fs::path(*options.job).parent_path()};
  const bool is_run = is_there(folder.metrics()) || is_there(folder.summary()) ||
                      is_there(folder.predicted_summary());
  if (options.model || !is_run || is_there(job.model) || !is_there(folder.config())) return;
  options.model = folder.config().string();
}

void set_choice(Job& job, const planner::Choice& choice) {
  Strategy& strategy = job.strategy;
  strategy.runtime = choice.runtime;
  strategy.sharding = choice.sharding;
  strategy.mesh = choice.mesh;
  strategy.wrap = {.policy =
                       choice.blocks_per_unit == 0 ? WrapPolicy::none : WrapPolicy::transformer};
  strategy.prefetch = planner::native_prefetching(choice.prefetch);
  strategy.reduce_every_micro_batch = choice.reduces_every_micro_batch;
  job.batch = choice.batch;
  job.accumulate = choice.micro_batches;
  if (!job.precision_given) job.pytorch_precision = name_of(choice.precision);
  job.pytorch_checkpointing = planner::text_of(choice.checkpointing);
}

}  // namespace

void take_settings_of_job(const JobSettings& settings) {
  if (!settings.job.job) return;
  const Job job = read_job(*settings.job.job);
  take_config_of_run(job, settings.job);
  if (!settings.cluster && !job.cluster.empty()) settings.cluster = job.cluster;
  if (settings.sharding.runtime || settings.sharding.names_file()) {
    settings.job.runtime = settings.sharding.runtime;
    take_under_another_runtime(settings, job);
    return;
  }
  if (job.strategy.runtime == Runtime::native) return;
  const bool is_place = std::ranges::any_of(
      job.pytorch, [](const auto& option) { return option.first == place_of_plan; });
  if (is_place) refuse_changes(settings.job);
  for (const auto& [name, value] : job.pytorch) take(settings, name, value);
  if (!settings.sharding.names_file() && !settings.sharding.config)
    settings.sharding.runtime = std::string(name_of(job.strategy.runtime));
}

void leave_job(const RunFolder& folder, Job job, int world, const JobSettings& settings,
               const std::optional<planner::Choice>& choice) {
  job.ranks = world;
  job.cluster = folder.hardware().string();
  const fs::path config = config_path(job.model);
  if (config.extension() == ".json" && is_there(config)) {
    if (!is_there(folder.config()) || !fs::equivalent(config, folder.config()))
      write_atomically(folder.config(), read_whole(config));
    job.model = folder.config();
  }
  if (choice) {
    if (settings.job.precision) job.pytorch_precision = *settings.job.precision;
    set_choice(job, *choice);
    job.pytorch = given(settings);
    copy_files(folder, job.pytorch);
    write_atomically(folder.predicted_choice(), planner::choice_json(*choice));
  }
  write_atomically(folder.job(), to_json(job, folder.root));
}

}  // namespace shardscope
