#include "core/pytorch/runtimes/training/run_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/model/huggingface.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t max_world = 1 << 20;
constexpr std::int64_t max_tokens = std::int64_t{1} << 30;

using Strings = std::vector<std::string>;

template <class Value, std::size_t N>
Value chosen(const std::array<std::pair<std::string_view, Value>, N>& known,
             const JsonValue& value) {
  const std::string text = value.string();
  std::string names;
  for (const auto& [name, meaning] : known) {
    if (text == name) return meaning;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw value.error(fmt::format("\"{}\" is not known", text), "one of " + names);
}

constexpr std::array<std::pair<std::string_view, Runtime>, 3> runtimes{
    {{"ddp", Runtime::ddp}, {"fsdp1", Runtime::fsdp1}, {"fsdp2", Runtime::fsdp2}}};
constexpr std::array<std::pair<std::string_view, Device>, 2> devices{
    {{"cpu", Device::cpu}, {"cuda", Device::cuda}}};
constexpr std::array<std::pair<std::string_view, AttentionImplementation>, 2> attentions{
    {{"sdpa", AttentionImplementation::sdpa}, {"eager", AttentionImplementation::eager}}};
constexpr std::array<std::pair<std::string_view, OptimizerRule>, 3> optimizer_rules{
    {{"AdamW", OptimizerRule::adamw}, {"Adam", OptimizerRule::adam}, {"SGD", OptimizerRule::sgd}}};
constexpr std::array<std::pair<std::string_view, fsdp1::BackwardPrefetch>, 2> prefetches{
    {{"BACKWARD_PRE", fsdp1::BackwardPrefetch::pre},
     {"BACKWARD_POST", fsdp1::BackwardPrefetch::post}}};
constexpr std::array<std::pair<std::string_view, ShardingStrategy>, 5> strategies{
    {{"FULL_SHARD", ShardingStrategy::full_shard},
     {"SHARD_GRAD_OP", ShardingStrategy::shard_grad_op},
     {"NO_SHARD", ShardingStrategy::no_shard},
     {"HYBRID_SHARD", ShardingStrategy::hybrid_shard},
     {"_HYBRID_SHARD_ZERO2", ShardingStrategy::hybrid_shard_zero2}}};

bool flag(const JsonValue& object, std::string_view key, bool otherwise) {
  const auto value = object.find(key);
  return value ? value->boolean() : otherwise;
}

bool not_zero(const JsonValue& object, std::string_view key) {
  const auto value = object.find(key);
  return value && value->number() != 0;
}

std::optional<Dtype> dtype_in(const JsonValue& object, std::string_view key) {
  const auto value = object.find(key);
  if (!value) return std::nullopt;
  return parse_dtype(value->string(), value->where());
}

Strings strings(const JsonValue& object, std::string_view key) {
  Strings result;
  if (const auto list = object.find(key))
    for (const JsonValue& text : list->elements()) result.push_back(text.string());
  return result;
}

std::vector<int> mesh_in(const JsonValue& object, std::string_view key, int world) {
  std::vector<int> mesh;
  const auto list = object.find(key);
  if (!list) return mesh;
  std::int64_t product = 1;
  for (const JsonValue& axis : list->elements()) {
    mesh.push_back(static_cast<int>(axis.integer(1, max_world)));
    product *= mesh.back();
    if (product > max_world) throw list->error("more ranks than are played");
  }
  if (mesh.empty() || mesh.size() > 2 || product != world)
    throw list->error(fmt::format("a mesh of {} ranks in a world of {}", product, world),
                      "[shards] or [replicas, shards]");
  return mesh;
}

Fsdp1Setup fsdp1_setup(const JsonValue& given, const Strings& wrap, int world) {
  Fsdp1Setup setup;
  Fsdp1Settings& units = setup.units;
  units.world = units.ranks_per_node = world;
  if (const auto strategy = given.find("strategy")) units.strategy = chosen(strategies, *strategy);
  units.use_original_parameters = flag(given, "use_orig_params", true);
  const std::vector<int> mesh = mesh_in(given, "hybrid", world);
  if (mesh.size() == 2) units.mesh = Mesh{.replicate = mesh[0], .shard = mesh[1]};
  CustomWrap modules;
  for (const std::string& name : wrap)
    modules.units.push_back({.module = name, .strategy = {}, .use_original_parameters = {}});
  units.auto_wrap = std::move(modules);

  fsdp1::Options& options = setup.options;
  options.use_original_parameters = units.use_original_parameters;
  options.forward_prefetch = flag(given, "forward_prefetch", false);
  options.limit_all_gathers = flag(given, "limit_all_gathers", true);
  if (const auto prefetch = given.find("backward_prefetch"))
    options.backward_prefetch = chosen(prefetches, *prefetch);
  else if (given.has("backward_prefetch"))
    options.backward_prefetch = fsdp1::BackwardPrefetch::none;
  if (const auto precision = given.find("mp")) {
    options.precision = {.parameters = dtype_in(*precision, "param_dtype"),
                         .reduction = dtype_in(*precision, "reduce_dtype"),
                         .buffers = dtype_in(*precision, "buffer_dtype")};
    units.mixed_precision = MixedPrecision{.parameters = options.precision.parameters,
                                           .reduction = options.precision.reduction};
  }
  return setup;
}

fsdp2::ReshardAfterForward reshard_in(const JsonValue& given) {
  const auto value = given.find("reshard_after_forward");
  if (!value) return std::nullopt;
  if (value->is_boolean()) return value->boolean();
  return static_cast<int>(value->integer(1, max_world));
}

/// A module's name once some of those around it have wrappers of checkpointing: the wrapper has the
/// name that its module had.
std::string wrapped_name(const std::string& name, const CheckpointSetup& checkpointing) {
  for (const std::string& around : checkpointing.modules)
    if (name.starts_with(around + "."))
      return around + "._checkpoint_wrapped_module" + name.substr(around.size());
  return name;
}

Fsdp2Setup fsdp2_setup(const JsonValue& given, const Strings& wrap, int world,
                       const CheckpointSetup& checkpointing) {
  Fsdp2Setup setup;
  setup.mesh = mesh_in(given, "mesh", world);
  if (setup.mesh.empty()) setup.mesh = {world};
  if (const auto precision = given.find("mp")) {
    setup.mixed_precision = {.param_dtype = dtype_in(*precision, "param_dtype"),
                             .reduce_dtype = dtype_in(*precision, "reduce_dtype"),
                             .output_dtype = dtype_in(*precision, "output_dtype")};
  }
  const fsdp2::ReshardAfterForward reshard = reshard_in(given);
  for (const std::string& name : wrap)
    setup.calls.push_back({{wrapped_name(name, checkpointing)}, reshard});
  setup.calls.push_back({{""}, reshard});
  return setup;
}

ddp::Options ddp_options(const JsonValue& given) {
  ddp::Options options;
  if (const auto cap = given.find("bucket_cap_mb")) options.buckets.bucket_cap_mib = cap->number(0);
  options.buckets.find_unused_parameters = flag(given, "find_unused_parameters", false);
  options.buckets.static_graph = flag(given, "static_graph", false);
  options.gradient_as_bucket_view = flag(given, "gradient_as_bucket_view", false);
  options.broadcast_buffers = flag(given, "broadcast_buffers", true);
  options.init_sync = flag(given, "init_sync", true);
  return options;
}

OptimizerSettings optimizer_in(const JsonValue& given, Device device) {
  OptimizerSettings settings{.rule = chosen(optimizer_rules, given.at("name"))};
  const bool foreach = flag(given, "foreach", device == Device::cuda);
  settings.implementation = flag(given, "fused", false) ? OptimizerImplementation::fused
                            : foreach                   ? OptimizerImplementation::foreach
                                                        : OptimizerImplementation::loop;
  settings.weight_decay = not_zero(given, "weight_decay");
  settings.amsgrad = flag(given, "amsgrad", false);
  settings.capturable = flag(given, "capturable", false);
  settings.momentum = not_zero(given, "momentum");
  settings.nesterov = flag(given, "nesterov", false);
  return settings;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The blocks: modules of the lists that the model's classes of blocks stand in.
CheckpointSetup checkpointing_of_blocks(const shardscope::Model& model) {
  CheckpointSetup setup;
  const Strings& blocks = model.no_split_classes;
  for (const shardscope::Module& module : model.modules) {
    const std::size_t dot = module.name.rfind('.');
    const std::string_view leaf = std::string_view(module.name).substr(dot + 1);
    const bool is_block = is_number(leaf) && std::find(blocks.begin(), blocks.end(),
                                                       module.class_name) != blocks.end();
    if (is_block) setup.modules.push_back(module.name);
  }
  return setup;
}

TrainingSettings loop_in(const JsonValue& settings, const JsonValue& given, Device device) {
  TrainingSettings loop;
  loop.batch = settings.at("batch").integer(1, max_tokens);
  loop.length = settings.at("seq").integer(1, max_tokens);
  if (const auto count = settings.find("micro_batches"))
    loop.micro_batches = static_cast<int>(count->integer(1, 1 << 16));
  loop.syncs_once = flag(given, "no_sync", false);
  loop.divides_in_backward = true;
  loop.clips = given.find("clip").has_value();
  loop.zero_grad_to_none = flag(given, "set_to_none", true);
  loop.optimizer = optimizer_in(settings.at("optimizer"), device);
  return loop;
}

std::optional<JsonValue> precision_in(const JsonValue& arguments) { return arguments.find("mp"); }

std::string precision_text(const JsonValue& arguments) {
  const auto precision = precision_in(arguments);
  if (!precision) return "fp32";
  const Dtype dtype = dtype_in(*precision, "param_dtype").value_or(Dtype::float32);
  if (dtype == Dtype::bfloat16) return "bf16_mixed";
  return dtype == Dtype::float16 ? "fp16_mixed" : "fp32";
}

ShardingStrategy sharding_of(const RuntimeSetup& runtime) {
  if (const auto* fsdp1 = std::get_if<Fsdp1Setup>(&runtime)) return fsdp1->units.strategy;
  const auto* fsdp2 = std::get_if<Fsdp2Setup>(&runtime);
  if (fsdp2 == nullptr) return ShardingStrategy::no_shard;
  return fsdp2->mesh.size() == 2 ? ShardingStrategy::hybrid_shard : ShardingStrategy::full_shard;
}

}  // namespace

RunSettings read_run_settings(const JsonValue& settings, int rank) {
  const Runtime runtime = chosen(runtimes, settings.at("strategy"));
  const JsonValue config = settings.at("config");
  const JsonValue given = settings.at("case");
  const JsonValue arguments = given.at(settings.at("strategy").string());
  const int world = static_cast<int>(settings.at("world").integer(1, max_world));
  if (rank < 0 || rank >= world)
    throw settings.error(fmt::format("there is no rank {} in a world of {}", rank, world),
                         "give the settings of the run that was traced");
  RunSettings run{
      .name = settings.find("name") ? settings.at("name").string() : "",
      .model = model_of_config(
          config, {.class_name = settings.at("model_class").string(), .constructor = true}),
      .config = config,
      .runtime = runtime,
      .precision = precision_text(arguments)};
  TrainingSetup& setup = run.setup;
  setup.world = world;
  setup.rank = rank;
  const auto device = settings.find("device");
  setup.session.device = device ? chosen(devices, *device) : Device::cuda;
  setup.made_on = setup.session.device;
  if (const auto attention = settings.find("attention"))
    setup.model.attention = chosen(attentions, *attention);
  setup.loop = loop_in(settings, given, setup.session.device);
  if (flag(given, "activation_checkpoint", false))
    setup.checkpointing = checkpointing_of_blocks(run.model);
  const Strings wrap = strings(settings, "wrap");
  if (runtime == Runtime::ddp)
    setup.runtime = ddp_options(arguments);
  else if (runtime == Runtime::fsdp1)
    setup.runtime = fsdp1_setup(arguments, wrap, world);
  else
    setup.runtime = fsdp2_setup(arguments, wrap, world, setup.checkpointing);
  run.sharding = sharding_of(setup.runtime);
  return run;
}

}  // namespace shardscope::eager
