#include "cli/torchtitan_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "cli/expert_load.h"
#include "cli/native_scenario.h"
#include "cli/refused_option.h"
#include "core/base/error.h"
#include "core/native/pipeline_stages.h"
#include "core/pytorch/parallel/chunked_loss.h"
#include "core/pytorch/parallel/model_shape.h"
#include "core/pytorch/parallel/torchtitan_stages.h"
#include "core/pytorch/runtimes/training/float8_layers.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "sim/planner/torchtitan_pipeline.h"

namespace shardscope {
namespace {

using eager::parallel::MeshAxis;
using eager::parallel::ParallelSettings;

/// The user's word for an axis, and torchtitan's, from the outermost to the innermost.
struct AxisName {
  std::string_view word, axis;
};
constexpr AxisName axis_names[] = {{"pipeline", "pp"},
                                   {"replicate", "dp_replicate"},
                                   {"shard", "dp_shard"},
                                   {"context", "cp"},
                                   {"tensor", "tp"}};
constexpr std::size_t shard_axis = 2;

Error mesh_error(std::string what) {
  return Error({.where = "--mesh",
                .what = std::move(what),
                .way_out = "give axes as in shard=16,tensor=8, of pipeline, replicate, shard, "
                           "context, tensor and expert"});
}

int axis_size(std::string_view word, std::string_view text) {
  int size = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (code != std::errc() || end != text.data() + text.size() || size < 1)
    throw mesh_error(fmt::format("axis {} has size \"{}\"", word, text));
  return size;
}

struct GivenMesh {
  std::vector<MeshAxis> axes;
  int expert_ranks = 1;  ///< of the ranks of shard, context and tensor
};
constexpr std::string_view expert_word = "expert";
/// Of --layers.
constexpr std::string_view layers_word_of_0_3 = "torchtitan-0.3";

/// Every axis once; those that are not named have size 1. `shard` 0: not named.
GivenMesh parse_axes(std::string_view text) {
  GivenMesh mesh;
  std::vector<MeshAxis>& axes = mesh.axes;
  for (const AxisName& name : axis_names) axes.push_back({std::string(name.axis), 1});
  axes[shard_axis].size = 0;
  std::vector<std::string_view> seen;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::string_view word = part.substr(0, part.find('='));
    const auto* found = std::find_if(std::begin(axis_names), std::end(axis_names),
                                     [&](const AxisName& name) { return name.word == word; });
    if (found == std::end(axis_names) && word != expert_word)
      throw mesh_error(fmt::format(
          "\"{}\" is none of pipeline, replicate, shard, context, tensor, expert", word));
    if (std::find(seen.begin(), seen.end(), word) != seen.end())
      throw mesh_error(fmt::format("axis {} stands twice", word));
    if (part.size() == word.size()) throw mesh_error(fmt::format("axis {} has no size", word));
    seen.push_back(word);
    int& size = word == expert_word
                    ? mesh.expert_ranks
                    : axes[static_cast<std::size_t>(found - std::begin(axis_names))].size;
    size = axis_size(word, part.substr(word.size() + 1));
  }
  return mesh;
}

std::int64_t product_of(const std::vector<MeshAxis>& axes) {
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes) product *= axis.size;
  return product;
}

/// The mesh of --mesh and --world: the axis shard takes the ranks that are left.
GivenMesh mesh_of(const JobOptions& job, const PlaceOptions& place) {
  GivenMesh mesh = parse_axes(job.mesh.value_or(""));
  std::vector<MeshAxis>& axes = mesh.axes;
  const bool shard_is_free = axes[shard_axis].size == 0;
  if (shard_is_free) axes[shard_axis].size = 1;
  const std::int64_t product = product_of(axes);
  constexpr std::int64_t most = 1 << 20;
  if (product > most) throw mesh_error(fmt::format("{} ranks are more than {}", product, most));
  if (!place.world) {
    if (product < 2)
      throw Error({.where = "--mesh",
                   .what = "torchtitan shards over several ranks, and their number is not given",
                   .way_out = "give --mesh shard=16,tensor=8, or --world"});
    return mesh;
  }
  const std::int64_t world = *place.world;
  if (world < 1 || world > most || (shard_is_free ? world % product != 0 : world != product))
    throw mesh_error(
        fmt::format("its axes multiply to {} ranks and --world is {}", product, world));
  if (shard_is_free) axes[shard_axis].size = static_cast<int>(world / product);
  return mesh;
}

std::string text_of_mesh(const GivenMesh& mesh) {
  std::string text;
  const auto add = [&](std::string_view word, int size) {
    if (size > 1) text += fmt::format("{}{}={}", text.empty() ? "" : ",", word, size);
  };
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) add(axis_names[i].word, mesh.axes[i].size);
  add(expert_word, mesh.expert_ranks);
  return text;
}

/// Without a pipeline all axes but that; with one those of several ranks, as torchtitan shards
/// nothing over one.
std::vector<MeshAxis> used_axes(std::vector<MeshAxis> axes) {
  if (axes.front().size == 1)
    axes.erase(axes.begin());
  else
    std::erase_if(axes, [](const MeshAxis& axis) { return axis.size == 1; });
  return axes;
}

void check_divides(std::string_view what, std::int64_t size, std::string_view axis, int ranks) {
  if (ranks < 1 || size % ranks == 0) return;
  throw mesh_error(fmt::format("{} {} do not divide over {} of {}", size, what, ranks, axis));
}

void check_divides(const ParallelSettings& settings) {
  const int tensor = size_of_axis(settings.mesh, "tp");
  const int context = size_of_axis(settings.mesh, "cp");
  check_divides("attention heads", settings.shape.heads, "tensor", tensor);
  check_divides("key and value heads", settings.shape.kv_heads, "tensor", tensor);
  check_divides("columns of the feed-forward", settings.shape.hidden, "tensor", tensor);
  const int halves = context > 1 ? 2 * context : 1;
  check_divides("tokens of a sequence", settings.length, "context (head and tail)", halves);
  check_divides("tokens of a rank's sequence", settings.length / context, "tensor", tensor);
}

/// Options that mean something else here, or nothing.
void refuse_foreign(const PytorchQuestion& q) {
  refuse_if(q.sharding.names_file(), "--runtime torchtitan",
            "a configuration file of another program says how it shards");
  refuse_if(q.job.wrap.has_value(), "--wrap", "torchtitan shards every block and the rest");
  refuse_if(q.job.prefetch.has_value(), "--prefetch", "FSDP2 prefetches as it does");
  refuse_if(q.job.memory_budget.has_value(), "--memory-budget",
            "it chooses the native runtime's checkpointing");
  refuse_if(q.job.offload.has_value(), "--offload", "torchtitan's own file says it");
  refuse_under_torchtitan(q.pytorch);
  refuse_if(q.sharding.ranks_per_node.has_value(), "--ranks-per-node",
            "nodes are the cluster's under torchtitan");
  refuse_if(q.sharding.use_orig_params, "--use-orig-params", "it is FSDP1's");
  refuse_if(q.sharding.accelerate_version.has_value(), "--accelerate-version",
            "accelerate takes no part here");
}

TrainingPrecision precision_of(const JobOptions& job, std::vector<std::string>& assumed) {
  if (!job.precision) assumed.emplace_back("precision bf16_mixed (--precision)");
  const std::string name = job.precision.value_or("bf16_mixed");
  if (name != "fp32" && name != "bf16" && name != "bf16_mixed")
    throw Error({.where = "--precision",
                 .what = fmt::format("torchtitan has no \"{}\"", name),
                 .way_out = "give fp32, bf16 or bf16_mixed"});
  return parse_training_precision(name, "--precision");
}

/// Whether parameters are let go after forward.
bool reshards(const JobOptions& job) {
  const std::string name = job.strategy.value_or("full_shard");
  if (name == "full_shard" || name == "hybrid_shard") return true;
  if (name == "shard_grad_op" || name == "hybrid_shard_zero2") return false;
  throw Error({.where = "--strategy",
               .what = fmt::format("torchtitan has no \"{}\"", name),
               .way_out = "give full_shard or shard_grad_op"});
}

eager::CheckpointChoice checkpointing_of(const JobOptions& job, std::vector<std::string>& assumed) {
  if (job.checkpointing)
    return eager::parse_checkpoint_choice(*job.checkpointing, "--checkpointing");
  assumed.emplace_back("no activation checkpointing (--checkpointing)");
  return {};
}

eager::OptimizerSettings optimizer_of(const PytorchQuestion& q, const Job& job) {
  eager::OptimizerSettings optimizer{.implementation = eager::OptimizerImplementation::fused,
                                     .weight_decay = job.optimizer.weight_decay != 0};
  const std::string name = q.job.optimizer.value_or("adamw");
  if (name == "adam")
    optimizer.rule = eager::OptimizerRule::adam;
  else if (name != "adamw")
    throw Error({.where = "--optimizer",
                 .what = fmt::format("torchtitan has no \"{}\"", name),
                 .way_out = "give adamw or adam"});
  const std::string how = q.pytorch.optimizer_implementation.value_or("fused");
  if (how == "foreach")
    optimizer.implementation = eager::OptimizerImplementation::foreach;
  else if (how == "loop")
    optimizer.implementation = eager::OptimizerImplementation::loop;
  else if (how != "fused")
    throw Error({.where = "--optimizer-implementation",
                 .what = fmt::format("expected foreach, fused or loop, got \"{}\"", how)});
  return optimizer;
}

/// torchtitan's float8 recipes; the output layer stays as it is.
eager::parallel::Float8Recipe float8_of(const PytorchQuestion& q,
                                        std::vector<std::string>& assumed) {
  const eager::parallel::Float8Recipe recipe = float8_recipe_of(q.pytorch);
  if (recipe == eager::parallel::Float8Recipe::none) return recipe;
  eager::check_float8_device(q.gpu.compute_capability.value_or(90));
  if (!q.pytorch.compile) assumed.emplace_back(eager_float8_note);
  return recipe;
}

/// What a compiled ring keeps of what it gathers is not known.
CompileScope compiled_of(const PytorchQuestion& q, const std::vector<MeshAxis>& mesh) {
  const CompileScope scope = torchtitan_compile_scope(q.pytorch);
  if (scope != CompileScope::none && size_of_axis(mesh, "cp") > 1)
    throw Error({.where = "--compile",
                 .what = "compiled code is not predicted with the axis context",
                 .way_out = "leave --compile out, or leave context out of --mesh"});
  return scope;
}

eager::AttentionSwitches attention_of(const PytorchQuestion& q, bool ring) {
  const std::string name = q.pytorch.attention.value_or(ring ? "flash" : "cudnn");
  if (name == "cudnn" && !ring) return {};
  if (name == "flash") return {.cudnn = false};
  if (name == "efficient") return {.flash = false, .cudnn = false};
  throw Error({.where = "--attention",
               .what = fmt::format("\"{}\" is not predicted under torchtitan{}", name,
                                   ring ? " with an axis context" : ""),
               .way_out = ring ? "give flash or efficient" : "give cudnn, flash or efficient"});
}

/// The job's sizes and its pipeline of so many stages; strategy and mesh are read here.
Job sizes_of(const JobOptions& given, int stages) {
  JobOptions sizes = given;
  sizes.mesh = stages > 1 ? std::optional(fmt::format("pipeline={}", stages)) : std::nullopt;
  sizes.strategy = sizes.wrap = sizes.checkpointing = sizes.precision = sizes.optimizer =
      sizes.prefetch = sizes.runtime = std::nullopt;
  return job_of(sizes);
}

/// What stands beside an axis pp and was never compared with PyTorch.
void refuse_beside_pipeline(const PytorchQuestion& q, const std::vector<MeshAxis>& mesh,
                            const PipelineChoice& pipeline) {
  const auto refuse = [](bool given, std::string_view where, std::string_view what) {
    refuse_if(given, where,
              fmt::format("{} is not predicted with a pipeline under torchtitan", what),
              "leave it out, or leave pipeline out of --mesh");
  };
  refuse(size_of_axis(mesh, "cp") > 1, "--mesh", "an axis context");
  refuse(q.pytorch.float8.has_value() && pipeline.stages_per_rank > 1, "--float8",
         "float8 with several stages a rank");
  refuse(pipeline.checkpoint != PipelineCheckpoint::never, "--pipeline-checkpoint",
         "checkpointing of whole stages");
}

/// What PyTorch runs without an error, and trains wrongly.
void refuse_lost_gradients(PipelineScheduleKind kind, const Mesh& inside, bool reshards) {
  if (!splits_backward(kind)) return;
  if (inside.shard > 1 && reshards)
    throw Error(
        {.where = "--strategy",
         .what = fmt::format("{} asks for a stage's parameters when full_shard over {} ranks has "
                             "let them go: PyTorch gives gradients to the first stage only",
                             name_of(kind), inside.shard),
         .way_out = "give --strategy shard_grad_op, which torchtitan takes by itself"});
  if (inside.shard == 1 && inside.replicate > 1)
    throw Error({.where = "--pipeline-schedule",
                 .what = fmt::format("{} computes gradients of weights past the hooks of DDP over "
                                     "{} ranks: PyTorch reduces those of the first stage only",
                                     name_of(kind), inside.replicate),
                 .way_out = fmt::format("give Interleaved1F1B, or shard={} in --mesh with "
                                        "--strategy shard_grad_op",
                                        inside.replicate)});
}

/// What torchtitan 0.3's layers have not, or was never compared with them.
void refuse_beside_layers_of_0_3(const PytorchQuestion& q, const Model& model) {
  const eager::parallel::Float8Recipe float8 = float8_recipe_of(q.pytorch);
  refuse_if(float8 == eager::parallel::Float8Recipe::tensorwise, "--float8",
            "torchtitan 0.3's layers take rowwise float8 only",
            "give rowwise, or a dense Llama without --layers torchtitan-0.3");
  refuse_if(float8 != eager::parallel::Float8Recipe::none && model.family == "gpt_oss", "--float8",
            "float8 is not predicted with GPT-OSS", "leave --float8 out");
  refuse_if(q.pytorch.attention && *q.pytorch.attention != "flex", "--attention",
            "torchtitan 0.3's layers use FlexAttention", "give flex, or leave it out");
}

void check_divides_over_tensor(const eager::parallel::MixtureShape& shape, std::int64_t length,
                               int expert_ranks, int tensor) {
  const auto check = [&](std::string_view what, std::int64_t size) {
    check_divides(what, size, "tensor", tensor);
  };
  check("attention heads", shape.heads);
  if (!shape.latent) check("key and value heads", shape.kv_heads);
  if (expert_ranks == 1) check("columns of an expert", shape.hidden);
  check("columns of the shared experts", shape.shared_hidden);
  check("columns of the feed-forward", shape.dense_hidden);
  check("tokens of a sequence", length);
}

/// A rank's queries are whole blocks of FlexAttention.
void check_whole_blocks(std::int64_t length, int context) {
  const std::int64_t divisor = std::int64_t{eager::parallel::flex_attention_block} * context;
  if (context == 1 || length % divisor == 0) return;
  throw Error({.where = "--seq",
               .what = fmt::format("{} tokens over {} ranks of context do not divide into blocks "
                                   "of {}",
                                   length, context, eager::parallel::flex_attention_block),
               .way_out = fmt::format("give a multiple of {}", divisor)});
}

/// Compiled code exchanges tokens by an operator that selective checkpointing keeps.
void refuse_kept_exchanges(const PytorchQuestion& q, const planner::TorchtitanJob& asked) {
  refuse_if(asked.expert_ranks > 1 && asked.checkpointing.selective &&
                torchtitan_compile_scope(q.pytorch) != CompileScope::none,
            "--compile",
            "compiled code with --checkpointing selective keeps what experts exchange, which is "
            "not predicted",
            "give --checkpointing full or none, or leave --compile out");
}

/// Layers, experts and their ranks, as torchtitan 0.3 has them.
void set_layers_of_0_3(const PytorchQuestion& q, const GivenMesh& mesh, const JsonValue& config,
                       planner::TorchtitanJob& asked) {
  refuse_beside_layers_of_0_3(q, asked.model);
  asked.config = &config;
  asked.expert_ranks = mesh.expert_ranks;
  const ExpertLoad load = parse_expert_load(q.pytorch.expert_load);
  check_expert_load(load, mesh.expert_ranks);
  asked.expert_load = load.factor;
  const eager::parallel::MixtureShape shape = eager::parallel::mixture_shape(asked.model, config);
  const int tensor = size_of_axis(mesh.axes, "tp");
  const int context = size_of_axis(mesh.axes, "cp");
  check_divides("ranks of shard, context and tensor",
                size_of_axis(mesh.axes, "dp_shard") * context * tensor, expert_word,
                mesh.expert_ranks);
  check_divides("experts", shape.experts, expert_word, mesh.expert_ranks);
  refuse_if(shape.ties_head && size_of_axis(mesh.axes, "pp") > 1, "--mesh",
            "torchtitan has no pipeline for a model that ties its embedding and output",
            "leave pipeline out");
  check_whole_blocks(asked.length, context);
  check_divides_over_tensor(shape, asked.length / context, mesh.expert_ranks, tensor);
  refuse_kept_exchanges(q, asked);
  if (shape.has_sinks && tensor > 1 && mesh.expert_ranks == 1)
    throw mesh_error("GPT-OSS is not predicted with tensor and without expert");
  if (asked.checkpointing.every > 1)
    throw Error({.where = "--checkpointing",
                 .what = "torchtitan 0.3 checkpoints every block, or none",
                 .way_out = "give none, selective or full"});
}

void note_layers_of_0_3(const PytorchQuestion& q, const planner::TorchtitanJob& asked,
                        TorchtitanScenario& scenario) {
  scenario.assumed.push_back(fmt::format("torchtitan 0.3: FlexAttention, the loss in {} parts",
                                         eager::parallel::usual_loss_parts));
  if (!eager::parallel::is_mixture(scenario.model)) return;
  if (!q.pytorch.expert_load)
    scenario.assumed.emplace_back("all experts get the same tokens (--expert-load)");
  if (q.pytorch.expert_load && asked.expert_ranks == 1)
    scenario.assumed.emplace_back("--expert-load changes nothing: each rank has all experts");
  else
    scenario.expert_loads = parse_expert_load(q.pytorch.expert_load).range;
}

constexpr std::string_view stages_option = "--pipeline-stages";

/// How torchtitan deals out layers, where it is asked for or nothing else is; takes the option out.
std::optional<eager::parallel::TorchtitanSplit> take_split(JobOptions& options) {
  if (!options.pipeline_stages && !options.job) return eager::parallel::TorchtitanSplit{};
  if (!options.pipeline_stages) return std::nullopt;
  const auto split =
      eager::parallel::parse_torchtitan_split(*options.pipeline_stages, stages_option);
  if (split) options.pipeline_stages = std::nullopt;
  return split;
}

int layers_of(const Model& model, const Job& job) {
  if (!eager::parallel::is_mixture(model))
    return model.decoder ? static_cast<int>(model.decoder->blocks.size()) : 0;
  return static_cast<int>(eager::parallel::mixture_shape(model, config_of(job.model)).layers);
}

/// torchtitan's numbers of stages and layers where they are not given.
void deal_out(const std::optional<eager::parallel::TorchtitanSplit>& split, bool stages_given,
              int ranks, int layers, PipelineChoice& pipeline) {
  const bool single = has_single_stage(pipeline.schedule);
  const auto listed = static_cast<int>(pipeline.layers.size());
  if (stages_given && split && split->layers_per_stage > 0)
    throw Error({.where = std::string(stages_option),
                 .what = fmt::format("{} layers a stage decide the number of stages, and {} "
                                     "stages a rank are given, too",
                                     split->layers_per_stage, pipeline.stages_per_rank),
                 .way_out = "leave out the stages a rank, or the third number"});
  if (!stages_given && split && split->layers_per_stage > 0)
    pipeline.stages_per_rank =
        eager::parallel::torchtitan_stages_per_rank(layers, ranks, single, *split, stages_option);
  else if (!stages_given && listed > 0 && listed % ranks == 0)
    pipeline.stages_per_rank = listed / ranks;
  else if (!stages_given && !single)
    pipeline.stages_per_rank = 2;
  if (split)
    pipeline.layers = eager::parallel::torchtitan_layers(layers, ranks * pipeline.stages_per_rank,
                                                         *split, stages_option);
}

void check_pipeline(const PytorchQuestion& q, const Job& job, const planner::TorchtitanJob& asked) {
  const bool of_0_3 = asked.has_layers_of_0_3();
  const int stages = size_of_axis(asked.mesh, "pp");
  if (stages == 1) return;
  refuse_beside_pipeline(q, asked.mesh, job.pipeline);
  const Mesh inside{.pipeline = stages,
                    .replicate = size_of_axis(asked.mesh, "dp_replicate"),
                    .shard = size_of_axis(asked.mesh, "dp_shard")};
  if (of_0_3 && size_of_axis(asked.mesh, "tp") > 1 && asked.batch > 1)
    throw Error(
        {.where = "--batch",
         .what = fmt::format("with tensor and pipeline PyTorch can send one sequence a micro-batch "
                             "between stages, not {}",
                             asked.batch),
         .way_out = "give --batch 1, or leave tensor or pipeline out of --mesh"});
  if (of_0_3 && splits_backward(job.pipeline.schedule))
    throw Error({.where = "--pipeline-schedule",
                 .what = fmt::format("{} splits the backward, which is not predicted with "
                                     "torchtitan 0.3's layers",
                                     name_of(job.pipeline.schedule)),
                 .way_out = "give 1F1B or Interleaved1F1B"});
  // torchtitan 0.3 applies FSDP2 on one rank, too.
  const std::string why =
      of_0_3 ? std::string() : planner::why_not_in_torchtitan(inside, asked.precision);
  if (!why.empty()) throw mesh_error(why);
  refuse_lost_gradients(job.pipeline.schedule, inside, asked.reshards);
  pipeline_setup({.mesh = inside}, job.pipeline, job.accumulate);
}

int rank_of(const PlaceOptions& place, int world) {
  const std::int64_t rank = place.rank.value_or(0);
  if (rank < 0 || rank >= world)
    throw Error(
        {.where = "--rank", .what = fmt::format("expected 0 to {}, got {}", world - 1, rank)});
  return static_cast<int>(rank);
}

/// Ranks that have sequences of their own.
int copies_of(const std::vector<MeshAxis>& mesh) {
  return size_of_axis(mesh, "dp_replicate") * size_of_axis(mesh, "dp_shard");
}

planner::TorchtitanPipeline pipeline_of(const TorchtitanScenario& scenario) {
  return {.settings = scenario.settings,
          .place = scenario.place,
          .session = scenario.session,
          .strategy = scenario.strategy,
          .precision = scenario.precision,
          .allocator = scenario.allocator,
          .assumed = scenario.assumed,
          .compiled = scenario.compiled};
}

}  // namespace

void refuse_under_torchtitan(const PytorchOptions& options) {
  refuse_if(options.loss && *options.loss != "outside", "--loss",
            "torchtitan computes the loss after the model");
  refuse_if(options.dropout && *options.dropout != "off", "--dropout",
            "torchtitan's Llama has no dropout");
  refuse_if(options.liger.value_or("off") != "off", "--liger", "torchtitan does not use Liger");
  refuse_if(options.reference.has_value(), "--reference", "torchtitan compares with no reference");
  refuse_if(options.prompt.has_value(), "--prompt", "torchtitan's tokens all have a label");
  const std::string layers = options.layers.value_or("torchtitan");
  refuse_if(layers != "torchtitan" && layers != layers_word_of_0_3, "--layers",
            "torchtitan's layers are its own",
            fmt::format("give torchtitan, or {} for those of that version", layers_word_of_0_3));
  refuse_if(options.transformers.has_value(), "--transformers",
            "torchtitan's Llama is none of transformers");
  refuse_if(options.optimizer_in_backward.value_or("off") != "off", "--optimizer-in-backward",
            "torchtitan updates after the backward");
  refuse_if(options.activation_offloading.value_or("off") != "off", "--activation-offloading",
            "torchtitan keeps activations on the device");
  check_pytorch(options.pytorch);
  const FineTuningOptions& tuning = options.fine_tuning;
  constexpr std::string_view whole = "torchtitan trains the whole model here, without adapters";
  refuse_if(tuning.peft.has_value(), "--peft", whole);
  refuse_if(tuning.quantization.has_value(), "--quantization", whole);
  refuse_if(tuning.prepare_kbit.has_value(), "--prepare-kbit", whole);
  refuse_if(tuning.peft_version.has_value(), "--peft-version", whole);
}

CompileScope torchtitan_compile_scope(const PytorchOptions& options) {
  const CompileScope scope = compile_scope_of(options);
  if (scope == CompileScope::model)
    throw Error({.where = "--compile",
                 .what = "torchtitan compiles each block by itself",
                 .way_out = "give blocks+loss, or blocks"});
  return scope;
}

TorchtitanScenario resolve_torchtitan_scenario(const PytorchQuestion& q) {
  refuse_foreign(q);
  const GivenMesh given = mesh_of(q.job, q.place);
  const std::vector<MeshAxis>& axes = given.axes;
  const int pipeline_ranks = axes.front().size;
  JobOptions options = q.job;
  const auto split = pipeline_ranks > 1 ? take_split(options) : std::nullopt;
  Job job = sizes_of(options, pipeline_ranks);
  TorchtitanScenario scenario{.model = trained_model(job)};
  if (pipeline_ranks > 1)
    deal_out(split, q.job.stages_per_rank.has_value() || q.job.job, pipeline_ranks,
             layers_of(scenario.model, job), job.pipeline);
  scenario.mesh = text_of_mesh(given);
  scenario.place.world = static_cast<int>(product_of(axes));
  scenario.place.rank = rank_of(q.place, scenario.place.world);
  const std::vector<MeshAxis> mesh = used_axes(axes);
  apply_tokens_per_batch(q.job, copies_of(mesh) * pipeline_ranks, job);
  const eager::parallel::Float8Recipe float8 = float8_of(q, scenario.assumed);
  scenario.compiled = compiled_of(q, mesh);
  planner::TorchtitanJob asked{.model = scenario.model,
                               .mesh = mesh,
                               .batch = job.batch,
                               .length = job.seq,
                               .micro_batches = job.accumulate,
                               .reshards = reshards(q.job),
                               .clips = job.clip > 0,
                               .precision = precision_of(q.job, scenario.assumed),
                               .optimizer = optimizer_of(q, job),
                               .checkpointing = {},
                               .pipeline = job.pipeline,
                               .float8 = float8};
  asked.asks_layers_of_0_3 = q.pytorch.layers.value_or("") == layers_word_of_0_3;
  check_pipeline(q, job, asked);
  asked.checkpointing = checkpointing_of(q.job, scenario.assumed);
  const bool has_experts = eager::parallel::is_mixture(scenario.model);
  const bool of_0_3 = asked.has_layers_of_0_3();
  refuse_if(!has_experts && q.pytorch.expert_load.has_value(), "--expert-load",
            "the model has no experts that are predicted under torchtitan", "leave it out");
  if (!has_experts && given.expert_ranks > 1)
    throw mesh_error(
        fmt::format("axis expert: {} has no experts, or experts that are not predicted under "
                    "torchtitan",
                    scenario.model.class_name));
  std::optional<JsonValue> config;
  if (of_0_3) set_layers_of_0_3(q, given, config.emplace(config_of(job.model)), asked);
  ParallelSettings& settings = scenario.settings = planner::torchtitan_settings(asked);
  scenario.precision = name_of(asked.precision);
  scenario.strategy = q.job.strategy.value_or("full_shard");
  if (!of_0_3) check_divides(settings);
  const bool ring = size_of_axis(settings.mesh, "cp") > 1;
  constexpr int usual_capability = 90;
  scenario.session = {.compute_capability = q.gpu.compute_capability.value_or(usual_capability),
                      .attention = of_0_3 ? eager::AttentionSwitches{} : attention_of(q, ring)};
  for (std::string& text : assumptions(q.job, job)) scenario.assumed.push_back(std::move(text));
  scenario.assumed.insert(scenario.assumed.end(), q.sharding.recipe_notes.begin(),
                          q.sharding.recipe_notes.end());
  if (of_0_3) note_layers_of_0_3(q, asked, scenario);
  if (size_of_axis(settings.mesh, "tp") > 1)
    scenario.assumed.emplace_back(
        "sequence parallel norms, loss parallel, synchronous tensor parallelism");
  if (pipeline_ranks > 1 && splits_backward(settings.schedule) && settings.checkpoint_every > 0)
    scenario.assumed.emplace_back(
        "checkpointed blocks run again for the input and once more for each of their weights, as "
        "PyTorch has it where the backward is in two parts");
  if (pipeline_ranks > 1 && size_of_axis(mesh, "dp_replicate") > 1 &&
      size_of_axis(mesh, "dp_shard") == 1)
    scenario.assumed.emplace_back(
        "DistributedDataParallel around each stage, as torch.distributed.pipelining takes it: "
        "torchtitan itself has no DDP beside a pipeline");
  return scenario;
}

namespace {

/// The band of the step's time, by that of other loads of the busiest rank's experts.
void widen(planner::TorchtitanPipeline pipeline, const std::pair<double, double>& loads,
           const HardwareProfile& profile, Summary& summary) {
  const auto with_load = [&](double load) {
    eager::parallel::MixtureSettings& mixture = *pipeline.settings.mixture;
    mixture.load = load;
    return planner::predict_alone(planner::schedule_of_rank(pipeline, 0), pipeline, profile)
        .summary;
  };
  const Summary low = with_load(loads.first), high = with_load(loads.second);
  summary.step_time_low = std::min(summary.step_time_low, low.step_time_low);
  summary.step_time_high = std::max(summary.step_time_high, high.step_time_high);
  summary.assumed.push_back(fmt::format(
      "the busiest rank's experts get {} to {} times the average (--expert-load): a step takes {} "
      "to {}, and at most {} to {} are reserved",
      loads.first, loads.second, rounded_text(low.step_time), rounded_text(high.step_time),
      rounded_text(low.memory.peak_reserved), rounded_text(high.memory.peak_reserved)));
}

}  // namespace

JobOptions options_of_torchtitan(const planner::Choice& choice, JobOptions job) {
  const Mesh& mesh = choice.mesh;
  job.mesh = fmt::format("pipeline={},replicate={},shard={},context={},tensor={}", mesh.pipeline,
                         mesh.replicate, mesh.shard, planner::context_ranks(choice),
                         planner::tensor_ranks(choice));
  if (planner::has_experts(choice))
    *job.mesh += fmt::format(",expert={}", planner::expert_ranks(choice));
  const bool shards = mesh.shard * planner::context_ranks(choice) > 1;
  job.strategy = shards ? name_of(choice.sharding) : name_of(ShardingStrategy::full_shard);
  if (planner::is_pipelined(choice)) {
    job.pipeline_schedule = name_of(choice.pipeline.schedule);
    job.pipeline_stages = text_of_stages(choice.pipeline);
    job.stages_per_rank = choice.pipeline.stages_per_rank;
  }
  job.batch = choice.batch;
  job.accumulate = choice.micro_batches;
  job.checkpointing = planner::text_of(choice.checkpointing);
  job.precision = name_of(choice.precision);
  job.wrap = job.prefetch = std::nullopt;
  return job;
}

std::vector<Prediction> predict_stages(const TorchtitanScenario& scenario,
                                       const HardwareProfile& profile) {
  const planner::TorchtitanPipeline pipeline = pipeline_of(scenario);
  if (size_of_axis(scenario.settings.mesh, "pp") > 1)
    return planner::predict_stages(pipeline, profile);
  std::vector<Prediction> alone;
  alone.push_back(
      planner::predict_alone(planner::schedule_of_rank(pipeline, 0), pipeline, profile));
  if (scenario.expert_loads)
    widen(pipeline, *scenario.expert_loads, profile, alone.front().summary);
  return alone;
}

std::size_t own_stage(const TorchtitanScenario& scenario) {
  const int stages = size_of_axis(scenario.settings.mesh, "pp");
  return static_cast<std::size_t>(scenario.place.rank / (scenario.place.world / stages));
}

PipelineSetup setup_of(const TorchtitanScenario& scenario) {
  return eager::parallel::pipeline_setup_of(scenario.settings);
}

std::string headline(const TorchtitanScenario& scenario) {
  const ParallelSettings& settings = scenario.settings;
  const bool is_pipeline = size_of_axis(settings.mesh, "pp") > 1;
  const std::string micro_batches =
      settings.micro_batches > 1 ? fmt::format(" x {} micro-batches", settings.micro_batches) : "";
  const std::string stage = is_pipeline ? fmt::format(", rank {} (pipeline rank {})",
                                                      scenario.place.rank, own_stage(scenario))
                                        : "";
  return fmt::format(
      "torchtitan {} of {} on {} ranks ({}), batch {} x {} tokens{}, {}{}{}", scenario.strategy,
      scenario.model.class_name, scenario.place.world, scenario.mesh,
      is_pipeline ? settings.batch / settings.micro_batches : settings.batch, settings.length,
      micro_batches, scenario.precision, compiled_words(scenario.compiled), stage);
}

}  // namespace shardscope
