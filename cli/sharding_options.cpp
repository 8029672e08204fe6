#include "cli/sharding_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "cli/refused_option.h"
#include "cli/release.h"
#include "core/base/error.h"
#include "core/base/refusal.h"
#include "core/config/accelerate/parallelism.h"
#include "core/config/config_plan.h"
#include "core/config/values/config_json.h"
#include "core/model/huggingface.h"
#include "core/pytorch/plans/runtime_request.h"

namespace shardscope {
namespace {

constexpr std::int64_t largest_world = 1 << 20;
constexpr int usual_ranks_per_node = 8;
/// Stands for a file where the Trainer's options stand on the command line.
constexpr const char* trainer_options_name = "--fsdp";

int size_of_option(std::int64_t value, std::string_view name) {
  if (value >= 1 && value <= largest_world) return static_cast<int>(value);
  throw Error({.where = std::string(name),
               .what = fmt::format("expected 1 to {}, got {}", largest_world, value)});
}

/// Where the plan is for: --world, else what the mesh multiplies to, else one rank.
struct Place {
  int world = 1;
  int ranks_per_node = 1;
  int rank = 0;
};

Place place_of(const ShardingOptions& options, const PlaceOptions& place,
               const std::optional<Mesh>& mesh, int tensor, std::vector<std::string>& assumed) {
  Place result;
  if (place.world)
    result.world = size_of_option(*place.world, "--world");
  else if (mesh)
    result.world = mesh->world() * tensor;
  else
    assumed.emplace_back("1 rank (--world)");
  result.ranks_per_node = options.ranks_per_node
                              ? size_of_option(*options.ranks_per_node, "--ranks-per-node")
                              : std::min(result.world, usual_ranks_per_node);
  const std::int64_t rank = place.rank.value_or(0);
  if (rank < 0 || rank >= result.world)
    throw Error({.where = "--rank",
                 .what = fmt::format("expected 0 to {}, got {}", result.world - 1, rank)});
  result.rank = static_cast<int>(rank);
  return result;
}

constexpr std::string_view tensor_axis = "tensor=";

/// Takes the axis tensor out of --mesh, which has none then if it was the only one; 1: it is not
/// there.
int take_tensor_axis(std::optional<std::string>& mesh) {
  if (!mesh) return 1;
  std::vector<std::string> others;
  std::optional<std::string> size;
  for (std::size_t begin = 0; begin <= mesh->size();) {
    const std::size_t end = std::min(mesh->find(',', begin), mesh->size());
    std::string part = mesh->substr(begin, end - begin);
    begin = end + 1;
    if (!part.starts_with(tensor_axis)) {
      others.push_back(std::move(part));
      continue;
    }
    if (size)
      throw Error({.where = "--mesh",
                   .what = "axis tensor stands twice",
                   .way_out = "give axes as in tensor=4,shard=2"});
    size = part.substr(tensor_axis.size());
  }
  if (!size) return 1;
  const std::string axis = std::string(tensor_axis) + *size;
  const Mesh read = [&] {
    try {
      return parse_mesh("shard=" + *size, "--mesh");  // for its checks of a size
    } catch (const Error&) {
      throw Error({.where = "--mesh",
                   .what = "axis tensor needs a size from 1 to 1000000, got \"" + axis + "\"",
                   .way_out = "give axes as in tensor=4,shard=2"});
    }
  }();
  mesh = others.empty() ? std::nullopt : std::optional(fmt::format("{}", fmt::join(others, ",")));
  return read.shard;
}

/// from_pretrained(distributed_config=DistributedConfig(tp_size, fsdp_size, dp_replicate_size))
/// decides on units, and on what is kept after forward.
void check_beside_tensor(const RuntimeRequest& request, const JobOptions& job) {
  if (request.runtime != Runtime::fsdp2)
    throw Error(
        {.where = "--mesh",
         .what = fmt::format("{} has no axis tensor", name_of(request.runtime)),
         .way_out = "give --runtime fsdp2 (transformers' tp_plan), torchtitan or megatron"});
  refuse_if(job.wrap.has_value(), "--wrap", "the model's own fsdp_plan makes the units",
            "leave it out, or leave tensor out of --mesh");
  const std::string strategy = job.strategy.value_or("full_shard");
  refuse_if(strategy != "full_shard" && strategy != "hybrid_shard", "--strategy",
            "the model's own fsdp_plan says what is kept after forward",
            "leave it out, or leave tensor out of --mesh");
}

/// The axes replicate and shard; the axis shard takes the ranks of --world that are left.
Mesh mesh_beside_tensor(const RuntimeRequest& request, const std::optional<std::string>& given,
                        const PlaceOptions& place) {
  Mesh mesh = request.mesh.value_or(Mesh{});
  const bool names_shard = given && given->find("shard=") != std::string::npos;
  const std::int64_t inside = std::int64_t{request.tensor} * mesh.replicate;
  if (place.world && !names_shard && *place.world > 0 && *place.world <= largest_world &&
      *place.world % inside == 0)
    mesh.shard = static_cast<int>(*place.world / inside);
  const auto fail = [&](std::string what, std::string_view way_out) {
    return Error({.where = "--mesh", .what = std::move(what), .way_out = std::string(way_out)});
  };
  if (mesh.pipeline > 1)
    throw fail("transformers' tensor parallelism is not predicted inside a pipeline",
               "leave pipeline out, or give --runtime torchtitan");
  if (mesh.replicate > 1 && mesh.shard == 1)
    throw fail("replicas beside an axis tensor are predicted of a sharded model",
               "give an axis shard above 1, or leave replicate out");
  if (inside > largest_world || inside * mesh.shard > largest_world)
    throw fail(fmt::format("the axes multiply to more than {} ranks", largest_world),
               "give smaller ones");
  if (place.world && *place.world != inside * mesh.shard)
    throw fail(fmt::format("tensor={},{} makes {} ranks, and the world has {}", request.tensor,
                           text_of(mesh), inside * mesh.shard, *place.world),
               "give axes that multiply to the world");
  return mesh;
}

RuntimeRequest request_of(const ShardingOptions& options, const JobOptions& job,
                          const PlaceOptions& place, std::vector<std::string>& assumed) {
  RuntimeRequest request{.runtime = parse_runtime(options.runtime.value_or("native"), "--runtime"),
                         .use_original_parameters = options.use_orig_params};
  std::optional<std::string> mesh = job.mesh;
  request.tensor = take_tensor_axis(mesh);
  if (request.tensor > 1) check_beside_tensor(request, job);
  if (mesh) request.mesh = parse_mesh(*mesh, "--mesh");
  if (request.tensor > 1) request.mesh = mesh_beside_tensor(request, mesh, place);
  const Place where = place_of(options, place, request.mesh, request.tensor, assumed);
  request.world = where.world;
  request.ranks_per_node = where.ranks_per_node;
  request.rank = where.rank;
  const bool ddp = request.runtime == Runtime::ddp;
  if (job.strategy)
    request.sharding = parse_sharding_strategy(*job.strategy, "--strategy");
  else
    request.sharding = ddp ? ShardingStrategy::no_shard : ShardingStrategy::full_shard;
  if (!job.strategy && !ddp && request.tensor == 1)
    assumed.emplace_back("strategy full_shard (--strategy)");
  if (job.wrap) request.units = parse_units(*job.wrap, "--wrap");
  if (job.precision)
    request.precision = parse_training_precision(*job.precision, "--precision");
  else
    assumed.emplace_back("precision fp32 (--precision)");
  if (job.optimizer) request.optimizer.kind = parse_optimizer(*job.optimizer, "--optimizer");
  if (!options.ranks_per_node && !request.mesh && request.world > 1 && is_hybrid(request.sharding))
    assumed.push_back(fmt::format("{} ranks per node (--ranks-per-node)", where.ranks_per_node));
  return request;
}

/// The Trainer's two options as the TrainingArguments that they set.
ConfigFile trainer_options(const ShardingOptions& options) {
  ConfigValue arguments = ConfigValue::dict();
  arguments.set("fsdp", options.fsdp ? ConfigValue(*options.fsdp) : ConfigValue(true));
  if (options.fsdp_config) arguments.set("fsdp_config", *options.fsdp_config);
  return {.path = trainer_options_name,
          .kind = ConfigKind::training_arguments,
          .text = json_text(arguments)};
}

/// What configures a training: the file of `accelerate launch`, one of the script that it starts,
/// or both. Of two the launcher's is `file`.
struct GivenFiles {
  std::optional<ConfigFile> file, arguments;
};

/// None where the command line says what to do.
GivenFiles config_files(const ShardingOptions& options) {
  std::vector<ConfigFile> files;
  if (options.deepspeed)
    files.push_back(read_config_file(*options.deepspeed, ConfigKind::deepspeed));
  if (options.training_arguments)
    files.push_back(read_config_file(*options.training_arguments, ConfigKind::training_arguments));
  if (options.fsdp || options.fsdp_config) files.push_back(trainer_options(options));
  if (options.recipe_shards()) files.push_back(*options.recipe);
  if (files.size() > 1 || (options.accelerate && options.deepspeed))
    throw Error({.where = files.back().name(),
                 .what = "two configurations at once",
                 .way_out =
                     "give one of --deepspeed, --training-arguments and --fsdp; --accelerate may "
                     "stand beside the last two"});
  std::optional<ConfigFile> own;
  if (!files.empty()) own = std::move(files.front());
  if (!options.accelerate) return {.file = std::move(own), .arguments = {}};
  return {.file = read_config_file(*options.accelerate, ConfigKind::accelerate),
          .arguments = std::move(own)};
}

/// A file decides what these options would.
void refuse_beside_file(const ShardingOptions& options, const JobOptions& job) {
  const std::pair<bool, std::string_view> given[] = {
      {options.runtime.has_value(), "--runtime"},
      {job.precision && !options.deepspeed, "--precision"},
      {options.use_orig_params, "--use-orig-params"},
      {job.strategy.has_value(), "--strategy"},
      {job.mesh.has_value(), "--mesh"},
      {job.wrap.has_value(), "--wrap"}};
  for (const auto& [is_given, name] : given)
    if (is_given)
      throw Error({.where = std::string(name),
                   .what = "the configuration file says it already",
                   .way_out = "change it there, or leave the file out"});
}

/// What DeepSpeed's "auto" becomes: TrainingArguments(bf16=True) for --precision bf16_mixed.
std::string trainer_precision(const JobOptions& job) {
  if (!job.precision) return {};
  const TrainingPrecision precision = parse_training_precision(*job.precision, "--precision");
  if (precision == TrainingPrecision::fp32) return {};
  return precision == TrainingPrecision::fp16_mixed ? "fp16" : "bf16";
}

Workers workers_of(const GivenFiles& given, const ConfigPlace& place) {
  if (given.arguments) return workers_of_script(*given.file, *given.arguments, place);
  return workers_of(*given.file, value_of(*given.file), place);
}

constexpr KnownReleases accelerate_releases{.library = "accelerate",
                                            .option = "--accelerate-version",
                                            .major = "1.",
                                            .oldest = oldest_accelerate,
                                            .newest = newest_accelerate};

ConfigPlace place_of(const ShardingOptions& options, const JobOptions& job,
                     const PlaceOptions& place) {
  if (place.world) size_of_option(*place.world, "--world");
  if (options.ranks_per_node) size_of_option(*options.ranks_per_node, "--ranks-per-node");
  ConfigPlace result{.world = place.world,
                     .ranks_per_node = options.ranks_per_node,
                     .trainer_precision = trainer_precision(job)};
  if (options.accelerate_version)
    result.accelerate = minor_release(accelerate_releases, *options.accelerate_version);
  return result;
}

ConfiguredRun configured_run(const Model& model, GivenFiles given, const ShardingOptions& options,
                             const JobOptions& job, const PlaceOptions& place,
                             std::vector<std::string>& assumed) {
  ConfiguredRun run{.workers = workers_of(given, place_of(options, job, place)),
                    .model = configured(model, widths_of_model(job.model.value_or("")))};
  assumed.insert(assumed.end(), run.workers.assumed.begin(), run.workers.assumed.end());
  run.model.rank = static_cast<int>(place.rank.value_or(0));
  if (run.model.rank < 0 || run.model.rank >= run.workers.world)
    throw Error(
        {.where = "--rank",
         .what = fmt::format("expected 0 to {}, got {}", run.workers.world - 1, *place.rank)});
  if (job.optimizer) run.model.optimizer.kind = parse_optimizer(*job.optimizer, "--optimizer");
  run.file = std::move(*given.file);
  return run;
}

}  // namespace

bool casts_frozen_weights(const ShardingOptions& options, const PlaceOptions& place) {
  if (!options.accelerate_version) return false;
  const GivenFiles given = config_files(options);
  if (!given.file || given.file->kind == ConfigKind::deepspeed)
    throw Error(
        {.where = "--accelerate-version",
         .what = "no file says that accelerate prepares the training",
         .way_out = "give --accelerate, --training-arguments or --config, or leave it out"});
  return workers_of(given, place_of(options, {}, place)).casts_frozen_weights();
}

bool ShardingOptions::names_file() const {
  return accelerate || deepspeed || training_arguments || fsdp || fsdp_config || recipe_shards();
}

bool ShardingOptions::other_than_native() const {
  return names_file() || accelerate_version || (runtime && *runtime != "native");
}

bool has_axis_tensor(std::string_view mesh) {
  return mesh.starts_with(tensor_axis) || mesh.find("," + std::string(tensor_axis)) != mesh.npos;
}

void declare_sharding_options(Command& command, ShardingOptions& options) {
  command.heading("Whose rules");
  command.option("--runtime", options.runtime,
                 {"NAME",
                  "native, fsdp1, fsdp2, ddp, deepspeed (default: native); simulate: torchtitan "
                  "and megatron, too"});
  command.option("--accelerate", options.accelerate,
                 {"FILE", "predicts what `accelerate launch` does with this file"});
  command.option("--deepspeed", options.deepspeed, {"FILE", "DeepSpeed's JSON"});
  command.option("--training-arguments", options.training_arguments,
                 {"FILE",
                  "transformers' TrainingArguments: JSON, YAML, or a script (.sh) with the command "
                  "line; may stand beside --accelerate"});
  command.option("--fsdp", options.fsdp,
                 {"WORDS", "as the Trainer's --fsdp: \"full_shard auto_wrap offload\""});
  command.option("--fsdp-config", options.fsdp_config, {"FILE", "as the Trainer's --fsdp_config"});
  command.option(
      "--accelerate-version", options.accelerate_version,
      {"VERSION",
       "accelerate's release, 1.9 to 1.15. Under FSDP2 no_sync does nothing before 1.11, frozen "
       "weights become float32 before 1.13, and embedding and head are no units of their own "
       "before 1.14 (default: 1.15)"});
  command.option("--ranks-per-node", options.ranks_per_node,
                 {"N", "ranks over which a hybrid shards (default: up to 8)"});
  command.flag("--use-orig-params", options.use_orig_params,
               "FSDP1 keeps the original parameters, with alignment");
}

Error refused(const ConfigFile& file, const Refusal& refusal) {
  return Error(
      {.where = file.name(),
       // A refused first forward names its exception itself.
       .what = refusal.code() == ExitCode::no
                   ? std::string(refusal.what())
                   : fmt::format("{}: {}", refusal.exception(), refusal.what()),
       .way_out = file.path == trainer_options_name
                      ? ""
                      : fmt::format("`shardscope lint {} --model M` says more", file.name()),
       .code = refusal.code()});
}

namespace {

/// What the Trainer makes of a model that is divided as the file's parallelism_config says; none
/// where it has no tp, or another tool wraps the model.
std::optional<RuntimeRequest> divided_request(const ConfiguredRun& run) {
  const Workers& workers = run.workers;
  if (workers.uses_fsdp() || workers.uses_deepspeed() ||
      variable(workers.environment, "PARALLELISM_CONFIG_TP_SIZE", "1") == "1")
    return std::nullopt;
  accelerate::ParallelismConfig sizes = accelerate::make_parallelism(workers.environment);
  if (sizes.tp == 1 || sizes.cp > 1 || sizes.sp > 1) return std::nullopt;
  accelerate::check_parallelism(sizes, {.world = workers.world});
  const std::string mixed = variable(workers.environment, "ACCELERATE_MIXED_PRECISION", "no");
  if (mixed != "no" && mixed != "bf16")
    throw Error({.where = "mixed_precision",
                 .what = fmt::format("{} beside an axis tensor is not predicted", mixed),
                 .way_out = "write bf16 or no"});
  return RuntimeRequest{
      .runtime = Runtime::fsdp2,
      .mesh = Mesh{.replicate = static_cast<int>(sizes.dp_replicate),
                   .shard = static_cast<int>(sizes.dp_shard)},
      .tensor = static_cast<int>(sizes.tp),
      .autocasts = true,
      .precision = mixed == "bf16" ? TrainingPrecision::bf16_mixed : TrainingPrecision::fp32,
      .world = static_cast<int>(workers.world),
      .rank = run.model.rank,
      .optimizer = run.model.optimizer};
}

}  // namespace

RuntimeChoice runtime_choice(const Model& model, const ShardingOptions& options,
                             const JobOptions& job, const PlaceOptions& place,
                             std::vector<std::string>& assumed) {
  GivenFiles given = config_files(options);
  if (!given.file) return request_of(options, job, place, assumed);
  refuse_beside_file(options, job);
  ConfiguredRun run = configured_run(model, std::move(given), options, job, place, assumed);
  try {
    if (const auto request = divided_request(run)) return *request;
  } catch (const Refusal& refusal) {
    throw refused(run.file, refusal);
  }
  return run;
}

ShardingPlan plan_of(const Model& model, const RuntimeChoice& choice) {
  if (const auto* request = std::get_if<RuntimeRequest>(&choice)) {
    if (request->tensor > 1)
      throw Error({.where = "--mesh",
                   .what = "units of a model that is divided over an axis tensor are not listed",
                   .way_out = "leave tensor out; `shardscope simulate` predicts it"});
    return plan_of(model, *request);
  }
  const ConfiguredRun& run = std::get<ConfiguredRun>(choice);
  try {
    return plan_of(run.model, run.workers, files_beside(run.file));
  } catch (const Refusal& refusal) {
    throw refused(run.file, refusal);
  }
}

}  // namespace shardscope
