#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/config/recipe/recipe_keys.h"
#include "core/config/recipe/tools.h"

namespace shardscope::recipes {
namespace {

/// Sections that change nothing of a step.
constexpr std::string_view no_bearing[] = {
    "job",        "profiling",         "metrics", "checkpoint", "comm",
    "validation", "memory_estimation", "debug",   "dataset",    "lr_scheduler"};

constexpr LeftOut left_out[] = {
    {"fault_tolerance", "torchft keeps more copies of the model"},
    {"mx", "MXFP8 is not predicted"},
};

constexpr LeftOut left_out_of_parallelism[] = {
    {"disable_loss_parallel", "the loss is predicted over the split vocabulary"},
    {"enable_async_tensor_parallel", "collectives of tensor parallelism are synchronous"},
    {"enable_compiled_autograd", "the backward is predicted without compiled autograd"},
    {"pipeline_parallel_split_points", "layers are dealt out equally: give --pipeline-stages"},
    {"pipeline_parallel_schedule_csv", "the schedule by its name is predicted"},
    {"enable_fsdp_symm_mem", "FSDP2's collectives are NCCL's"},
    {"context_parallel_ptrr_mask_key", "sequences are dealt out from the front and the back"},
};

/// Backends that lead to the same collectives, and the shares of a sequence that are predicted.
constexpr std::string_view no_bearing_in_parallelism[] = {"spmd_backend"};

constexpr std::string_view no_bearing_in_model[] = {"tokenizer_path", "print_after_conversion",
                                                    "norm_type"};
constexpr std::string_view no_bearing_in_optimizer[] = {"lr",    "eps",          "beta1",
                                                        "beta2", "weight_decay", "foreach"};
constexpr std::string_view no_bearing_in_training[] = {
    "dataset",       "dataset_path",       "steps",
    "gc_freq",       "gc_debug",           "seed",
    "deterministic", "debug_moe",          "warmup_steps",
    "gc_force",      "data_parallel_type", "disable_cuda_graphs"};
/// torchtitan's flavors, by the names of their weights on the Hub. Source: torchtitan 000204a,
/// models/llama3/__init__.py.
constexpr std::pair<std::string_view, std::string_view> flavors[] = {
    {"8B", "meta-llama/Llama-3.1-8B"},
    {"70B", "meta-llama/Llama-3.1-70B"},
    {"405B", "meta-llama/Llama-3.1-405B"}};

constexpr std::string_view pipeline_degree = "pipeline_parallel_degree";
constexpr std::string_view modules_of_parts = "module_fqns_per_model_part";

/// A section of the file; None where it is not there.
ConfigValue section_of(const ConfigValue& file, std::initializer_list<std::string_view> path) {
  ConfigValue value = file;
  for (const std::string_view key : path) value = value.get(key);
  return value;
}

/// Degrees and switches moved from [training] and [experimental] to [parallelism] in 2025. Each is
/// looked for in all three.
class Moved {
 public:
  Moved(Keys& parallelism, Keys& training, Keys& experimental)
      : homes_{&parallelism, &training, &experimental} {}

  Keys& home_of(std::string_view key) {
    for (Keys* home : homes_)
      if (home->has(key)) return *home;
    return *homes_.front();
  }
  std::int64_t degree(std::string_view key) { return home_of(key).count(key, 1); }

 private:
  std::vector<Keys*> homes_;
};

std::string model_of(Keys& model) {
  const std::string name = model.text("name", "llama3");
  constexpr std::string_view known_names[] = {"llama3", "llama2", "qwen3", "deepseek_v3",
                                              "gpt_oss"};
  if (std::ranges::find(known_names, name) == std::end(known_names))
    throw model.error(
        "name", fmt::format("torchtitan's model {} is not modelled", name),
        fmt::format("{} are; `shardscope record` takes any model", fmt::join(known_names, ", ")));
  const std::string flavor = model.text("flavor", "debugmodel");
  const std::string assets = model.text("hf_assets_path", "");
  if (!assets.empty()) return assets;
  const auto* known = std::find_if(std::begin(flavors), std::end(flavors),
                                   [&](const auto& entry) { return entry.first == flavor; });
  return known == std::end(flavors) || name != "llama3" ? fmt::format("{} {}", name, flavor)
                                                        : std::string(known->second);
}

/// "shard=16,"; empty: the ranks that the other axes leave.
std::string shard_of(Moved& keys, bool has_replicas) {
  std::string_view key = "data_parallel_shard_degree";
  // Its name until the hybrid came. A file with both names is of the newer kind.
  if (!keys.home_of(key).has(key)) key = "data_parallel_degree";
  Keys& home = keys.home_of(key);
  if (!home.has(key) || home.number(key, -1) == -1) return {};
  const std::int64_t shard = home.count(key, 1);
  if (shard == 1 && has_replicas)
    throw home.error(key, "1 with several replicas is DDP, which is not predicted here",
                     "--runtime ddp predicts it for transformers' Llama");
  return fmt::format("shard={},", shard);
}

/// "shard=16,tensor=8"; the axis that is not named takes the ranks that are left.
std::string mesh_of(Moved& keys) {
  const std::int64_t replicate = keys.degree("data_parallel_replicate_degree");
  const std::int64_t stages = keys.degree(pipeline_degree);
  std::string mesh = stages > 1 ? fmt::format("pipeline={},", stages) : "";
  if (replicate > 1) mesh += fmt::format("replicate={},", replicate);
  mesh += shard_of(keys, replicate > 1);
  if (const auto context = keys.degree("context_parallel_degree"); context > 1)
    mesh += fmt::format("context={},", context);
  if (const auto tensor = keys.degree("tensor_parallel_degree"); tensor > 1)
    mesh += fmt::format("tensor={},", tensor);
  if (const auto expert = keys.degree("expert_parallel_degree"); expert > 1)
    mesh += fmt::format("expert={},", expert);
  if (!mesh.empty()) mesh.pop_back();
  return mesh;
}

std::string strategy_of(Moved& keys) {
  constexpr std::string_view key = "fsdp_reshard_after_forward";
  Keys& home = keys.home_of(key);
  const std::string policy = home.text(key, "default");
  // torchtitan 01db32e, llama3/infra/parallelize.py, apply_fsdp: default is never with a pipeline.
  if (policy == "default" && keys.degree(pipeline_degree) > 1) return "shard_grad_op";
  if (policy == "default" || policy == "always") return "full_shard";
  if (policy == "never") return "shard_grad_op";
  throw home.error(key, fmt::format("{} is not known", policy), "default, always and never are");
}

/// How many blocks each list of modules has: "3,4,4,3"; empty: no lists.
std::string layers_of_parts(Moved& keys) {
  Keys& home = keys.home_of(modules_of_parts);
  const ConfigValue parts = home.take(modules_of_parts);
  if (parts.is_null()) return {};
  const bool are_lists =
      parts.is_list() && std::ranges::all_of(parts.elements(), &ConfigValue::is_list);
  if (!are_lists)
    throw home.error(
        modules_of_parts, fmt::format("expected lists of modules, got {}", parts.repr()),
        "write [[\"tok_embeddings\", \"layers.0\"], [\"layers.1\", \"norm\", \"output\"]]");
  std::vector<std::ptrdiff_t> counts;
  for (const ConfigValue& part : parts.elements())
    counts.push_back(std::ranges::count_if(part.elements(), [](const ConfigValue& module) {
      return module.str().starts_with("layers.");
    }));
  return fmt::format("{}", fmt::join(counts, ","));
}

/// torchtitan's own way to deal out layers, as --pipeline-stages takes it.
std::string split_of(Moved& keys) {
  const auto fewer_layers = [&](std::string_view key) {
    constexpr double most = 1'000'000;
    const double value = keys.home_of(key).number(key, 1);
    if (value < 0 || value > most || value != std::floor(value))
      throw keys.home_of(key).error(key, fmt::format("{} is no number of layers", value),
                                    "give a whole number from 0 on");
    return static_cast<std::int64_t>(value);
  };
  const std::int64_t input = fewer_layers("pipeline_parallel_first_stage_less_layers");
  const std::int64_t output = fewer_layers("pipeline_parallel_last_stage_less_layers");
  constexpr std::string_view per_stage = "pipeline_parallel_layers_per_stage";
  const std::int64_t layers = keys.home_of(per_stage).count(per_stage, 0);
  if (layers > 0) return fmt::format("torchtitan:{},{},{}", input, output, layers);
  return fmt::format("torchtitan:{},{}", input, output);
}

/// A rank's sequences are cut into micro-batches, of one unless the file says another number.
void read_pipeline(Moved& keys, Recipe& recipe, Recipe::OwnLoop& loop) {
  constexpr std::string_view schedule = "pipeline_parallel_schedule";
  constexpr std::string_view size = "pipeline_parallel_microbatch_size";
  constexpr std::string_view count = "pipeline_parallel_microbatches";
  const std::string name = keys.home_of(schedule).text(schedule, "1F1B");
  Keys& home = keys.home_of(size);
  const std::int64_t micro_batch = home.count(size, 1);
  const ConfigValue given_count = keys.home_of(count).take(count);
  const std::string layers = layers_of_parts(keys);
  const std::string split = split_of(keys);
  if (keys.degree(pipeline_degree) == 1) return;
  if (!given_count.is_null())
    throw keys.home_of(count).error(count, "a number of micro-batches is not read",
                                    "write pipeline_parallel_microbatch_size");
  if (loop.batch % micro_batch != 0)
    throw home.error(
        size, fmt::format("{} sequences of a rank are no multiple of {}", loop.batch, micro_batch),
        "change one of the two");
  loop.pipeline_schedule = name;
  loop.pipeline_stages = layers.empty() ? split : layers;
  loop.micro_batches = loop.batch / micro_batch;
  loop.batch = micro_batch;
  if (std::exchange(loop.sequences, 0) > 0)
    recipe.assumed.emplace_back("one step of the pipeline a step, whatever global_batch_size says");
}

/// Of torchtitan 0.3.
void check_sequences(Keys& parallelism) {
  if (!parallelism.flag("enable_sequence_parallel", true))
    parallelism.warn("enable_sequence_parallel", "not-modelled",
                     "false is not modelled: norms are predicted on parts of sequences", {});
  const std::string balancer = parallelism.text("context_parallel_load_balancer", "headtail");
  if (balancer != "headtail")
    parallelism.warn("context_parallel_load_balancer", "not-modelled",
                     fmt::format("is not modelled: {} is predicted as headtail", balancer), {});
}

void check_ring(Moved& keys) {
  constexpr std::string_view key = "context_parallel_rotate_method";
  Keys& home = keys.home_of(key);
  if (const std::string method = home.text(key, "allgather"); method != "allgather")
    home.warn(key, "not-modelled",
              fmt::format("is not modelled: {} is predicted as allgather", method), {});
}

/// As --checkpointing takes it.
std::string checkpointing_of(const ConfigValue& section, const std::string& file,
                             std::vector<Finding>& findings) {
  Keys keys(section, file, "activation_checkpoint");
  const std::string mode = keys.text("mode", "selective");
  const ConfigValue option = keys.take("selective_ac_option");
  const std::string every = option.is_null() ? "2" : option.str();
  constexpr LeftOut more[] = {{"per_op_sac_force_recompute_mm_shapes_by_fqns",
                               "it changes which matrix products are computed again"}};
  constexpr std::string_view same[] = {
      "early_stop",        "memory_budget", "preserve_rng_state",
      "determinism_check", "debug",         "visualize_memory_budget_pareto"};
  keys.finish(more, same, {}, "torchtitan");
  findings = by_line(std::move(findings), keys.take_findings());
  if (mode == "none" || mode == "full") return mode;
  if (mode != "selective")
    throw keys.error("mode", fmt::format("{} is not modelled", mode),
                     "none, selective and full are");
  if (every == "op") return "selective";
  int count = 0;
  const auto [end, code] = std::from_chars(every.data(), every.data() + every.size(), count);
  if (code != std::errc() || end != every.data() + every.size() || count < 1)
    throw keys.error("selective_ac_option",
                     fmt::format("expected op or a number of blocks, got {}", every),
                     "write 'op' or '2'");
  return count == 1 ? "full" : fmt::format("every:{}", count);
}

/// Whether a converter that changes linear layers into 8-bit ones is on.
bool converts_to_float8(Keys& model) {
  const std::vector<std::string> converters = model.names("converters");
  for (const std::string& name : converters)
    if (name.find("float8") == std::string::npos && name.find("fp8") == std::string::npos)
      throw model.error("converters", fmt::format("{} is not modelled", name), "float8 is");
  return !converters.empty();
}

/// As --float8 takes it; empty: none.
std::string float8_of(const ConfigValue& file, Keys& model, const std::string& name,
                      std::vector<Finding>& findings) {
  ConfigValue section = section_of(file, {"float8"});
  std::string path = "float8";
  for (const std::string_view inner : {"float8", "fp8"})
    if (section.is_null() || section.size() == 0) {
      section = section_of(file, {"quantize", "linear", inner});
      path = fmt::format("quantize.linear.{}", inner);
    }
  Keys keys(section, name, path);
  // enable_float8_linear: the switch before there were converters.
  const bool switched = keys.flag("enable_float8_linear", false);
  const bool on = converts_to_float8(model) || switched;
  const std::string recipe = keys.text("recipe_name", "tensorwise");
  const bool gathers = keys.flag("enable_fsdp_float8_all_gather", false);
  if (!on) return {};
  if (recipe != "tensorwise" && recipe != "rowwise")
    throw keys.error("recipe_name", fmt::format("{} is not modelled", recipe),
                     "tensorwise and rowwise are");
  if (recipe == "tensorwise" && !gathers)
    keys.warn("enable_fsdp_float8_all_gather", "not-modelled",
              "false is not modelled: FSDP2 gathers 8-bit weights in the prediction", {});
  for (const std::string& layer : keys.names("filter_fqns"))
    if (layer != "output" && layer != "lm_head")
      keys.warn(
          "filter_fqns", "not-modelled",
          fmt::format("is not modelled for {}: all but the output layer are in float8", layer), {});
  constexpr std::string_view same[] = {"precompute_float8_dynamic_scale_for_fsdp",
                                       "force_recompute_fp8_weight_in_bwd",
                                       "emulate",
                                       "scaling_type_input",
                                       "scaling_type_weight",
                                       "scaling_type_grad_output",
                                       "moe_fqns_prototype"};
  keys.finish({}, same, {}, "torchtitan");
  findings = by_line(std::move(findings), keys.take_findings());
  return recipe;
}

/// In 2024 degrees stood in [training]. AdamW was then foreach unless `fused` was set, and the loss
/// was not compiled. Source: torchtitan 0011fb9, config_manager.py, train.py (loss_fn); 5cffd5a,
/// optimizer.py (build_optimizers).
bool is_of_2024(const Keys& training) {
  constexpr std::string_view degrees[] = {"data_parallel_degree", "data_parallel_shard_degree",
                                          "data_parallel_replicate_degree",
                                          "tensor_parallel_degree"};
  return std::any_of(std::begin(degrees), std::end(degrees),
                     [&](std::string_view key) { return training.has(key); });
}

/// As --compile takes it; empty: none.
std::string compiled_of(const ConfigValue& file, Keys& training, const std::string& name,
                        std::vector<Finding>& findings) {
  const ConfigValue section = section_of(file, {"compile"});
  Keys compile(section, name, "compile");
  const bool on = compile.flag("enable", training.flag("compile", false));
  std::vector<std::string> parts = compile.names("components");
  if (parts.empty()) {
    parts = {"model"};
    if (!is_of_2024(training)) parts.emplace_back("loss");
  }
  constexpr std::string_view same[] = {"backend", "fullgraph"};
  compile.finish({}, same, {}, "torchtitan");
  findings = by_line(std::move(findings), compile.take_findings());
  const auto compiles = [&](std::string_view part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  if (!on || !compiles("model")) return {};
  return compiles("loss") ? "blocks+loss" : "blocks";
}

/// `loop` has the implementation of a file that names none.
void read_optimizer(const ConfigValue& section, const std::string& file, Recipe& recipe,
                    Recipe::OwnLoop& loop) {
  Keys keys(section, file, "optimizer");
  const std::string name = keys.text("name", "AdamW");
  if (name != "AdamW" && name != "Adam")
    throw keys.error("name", fmt::format("{} is not modelled", name), "AdamW and Adam are");
  loop.optimizer = name == "AdamW" ? "adamw" : "adam";
  if (keys.has("fused")) loop.implementation = keys.take("fused").truthy() ? "fused" : "foreach";
  const std::string how = keys.text("implementation", loop.implementation);
  if (how != "fused" && how != "foreach" && how != "for-loop")
    throw keys.error("implementation", fmt::format("{} is not known", how),
                     "fused, foreach and for-loop are");
  loop.implementation = how == "for-loop" ? "loop" : how;
  constexpr std::string_view in_backward = "early_step_in_backward";
  if (keys.take(in_backward).truthy())
    throw keys.error(in_backward, "an update in the backward is not predicted under torchtitan",
                     "write false");
  keys.finish({}, no_bearing_in_optimizer, {}, "torchtitan");
  recipe.findings = by_line(std::move(recipe.findings), keys.take_findings());
}

std::string precision_of(Keys& training) {
  const std::string stored = training.text("dtype", "float32");
  const std::string computed = training.text("mixed_precision_param", "bfloat16");
  if (stored == "bfloat16" && computed == "bfloat16") return "bf16";
  if (stored == "float32" && computed == "bfloat16") return "bf16_mixed";
  if (stored == "float32" && computed == "float32") return "fp32";
  if (stored != "float32" && stored != "bfloat16")
    throw training.error("dtype", fmt::format("a dtype of {} is not predicted", stored),
                         "give \"float32\" or \"bfloat16\"");
  if (computed == "float32")
    throw training.error("mixed_precision_param",
                         "computing in float32 with a dtype of bfloat16 is not predicted",
                         "give mixed_precision_param = \"bfloat16\", or dtype = \"float32\"");
  throw training.error("mixed_precision_param",
                       fmt::format("computing in {} is not predicted", computed),
                       "give \"bfloat16\", or \"float32\" with dtype = \"float32\"");
}

/// torchtitan takes float32 alone. Source: torchtitan, job_config.py.
void check_reduction(Keys& training) {
  const std::string reduced = training.text("mixed_precision_reduce", "float32");
  if (reduced != "float32")
    throw training.error("mixed_precision_reduce",
                         fmt::format("reducing gradients in {} is not predicted", reduced),
                         "give \"float32\"");
}

void read_sizes(Keys& training, Recipe& recipe, Recipe::OwnLoop& loop) {
  // batch_size: its name until 2025.
  const std::string_view batch =
      training.has("local_batch_size") ? "local_batch_size" : "batch_size";
  loop.batch = training.count(batch, 8);
  if (training.has("global_batch_size") && training.number("global_batch_size", -1) != -1)
    loop.sequences = training.count("global_batch_size", 1);
  recipe.length = training.count("seq_len", 2048);
  loop.clip = training.number("max_norm", 1);
  if (training.flag("enable_cpu_offload", false))
    throw training.error("enable_cpu_offload", "offload is not predicted under torchtitan",
                         "--runtime fsdp2 with accelerate's file predicts it");
  if (const std::string type = training.text("data_parallel_type", "fsdp"); type != "fsdp")
    throw training.error("data_parallel_type", fmt::format("{} is not predicted here", type),
                         "--runtime ddp predicts it for transformers' Llama");
}

/// Compiled code is not predicted where ranks split sequences.
void compile_as_far_as_known(Recipe& recipe, Recipe::OwnLoop& loop) {
  if (loop.compile.empty() || loop.mesh.find("context=") == std::string::npos) return;
  loop.compile.clear();
  recipe.assumed.emplace_back(
      "code that is not compiled: torch.compile is not predicted with context parallelism. "
      "Compiled code takes less memory and fewer kernels");
}

}  // namespace

Recipe read_torchtitan(const ConfigValue& value, const std::string& file) {
  Recipe recipe;
  Recipe::OwnLoop loop;
  const ConfigValue model_section = section_of(value, {"model"});
  const ConfigValue training_section = section_of(value, {"training"});
  const ConfigValue parallelism_section = section_of(value, {"parallelism"});
  const ConfigValue experimental_section = section_of(value, {"experimental"});
  Keys all(value, file), model(model_section, file, "model");
  Keys training(training_section, file, "training");
  Keys parallelism(parallelism_section, file, "parallelism");
  Keys experimental(experimental_section, file, "experimental");
  Moved moved(parallelism, training, experimental);

  loop.runtime = "torchtitan";
  recipe.model = model_of(model);
  loop.mesh = mesh_of(moved);
  loop.strategy = strategy_of(moved);
  check_ring(moved);
  check_sequences(parallelism);
  read_sizes(training, recipe, loop);
  read_pipeline(moved, recipe, loop);
  loop.precision = precision_of(training);
  check_reduction(training);
  loop.implementation = is_of_2024(training) ? "foreach" : "fused";
  read_optimizer(section_of(value, {"optimizer"}), file, recipe, loop);
  loop.checkpointing =
      checkpointing_of(section_of(value, {"activation_checkpoint"}), file, recipe.findings);
  loop.float8 = float8_of(value, model, file, recipe.findings);
  loop.compile = compiled_of(value, training, file, recipe.findings);
  compile_as_far_as_known(recipe, loop);

  for (const std::string_view key :
       {"model", "training", "parallelism", "experimental", "optimizer", "activation_checkpoint",
        "float8", "quantize", "compile"})
    all.take(key);
  all.finish(left_out, no_bearing, {}, "torchtitan");
  model.finish({}, no_bearing_in_model, {}, "torchtitan");
  training.finish(left_out_of_parallelism, no_bearing_in_training, {}, "torchtitan");
  parallelism.finish(left_out_of_parallelism, no_bearing_in_parallelism, {}, "torchtitan");
  constexpr std::string_view imports[] = {"custom_import", "custom_args_module",
                                          "custom_model_path"};
  experimental.finish(left_out_of_parallelism, {}, imports, "torchtitan");
  for (Keys* keys : {&all, &model, &training, &parallelism, &experimental})
    recipe.findings = by_line(std::move(recipe.findings), keys->take_findings());
  recipe.own_loop = std::move(loop);
  return recipe;
}

}  // namespace shardscope::recipes
