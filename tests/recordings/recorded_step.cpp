#include "tests/recordings/recorded_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "tests/recordings/deepspeed_case.h"
#include "tests/recordings/fsdp1_case.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

struct Preset {
  std::string family;
  Json config;
};

/// PRESETS of record.py.
const std::map<std::string, Preset>& presets() {
  static const std::map<std::string, Preset> all{
      {"gpt2-tiny",
       {"gpt2",
        {{"vocab_size", 1000},
         {"n_positions", 128},
         {"n_embd", 64},
         {"n_layer", 2},
         {"n_head", 4}}}},
      {"gpt2-124m", {"gpt2", Json::object()}},
      {"gpt2-355m", {"gpt2", {{"n_embd", 1024}, {"n_layer", 24}, {"n_head", 16}}}},
      {"llama-tiny",
       {"llama",
        {{"vocab_size", 1000},
         {"hidden_size", 64},
         {"intermediate_size", 176},
         {"num_hidden_layers", 3},
         {"num_attention_heads", 4},
         {"num_key_value_heads", 2},
         {"max_position_embeddings", 128}}}},
      {"llama-1b",
       {"llama",
        {{"vocab_size", 128256},
         {"hidden_size", 2048},
         {"intermediate_size", 8192},
         {"num_hidden_layers", 16},
         {"num_attention_heads", 32},
         {"num_key_value_heads", 8},
         {"head_dim", 64},
         {"max_position_embeddings", 8192},
         {"tie_word_embeddings", true}}}},
      {"llama-8b",
       {"llama",
        {{"vocab_size", 128256},
         {"hidden_size", 4096},
         {"intermediate_size", 14336},
         {"num_hidden_layers", 32},
         {"num_attention_heads", 32},
         {"num_key_value_heads", 8},
         {"max_position_embeddings", 8192}}}},
      {"qwen3-tiny",
       {"qwen3",
        {{"vocab_size", 1003},
         {"hidden_size", 96},
         {"intermediate_size", 250},
         {"num_hidden_layers", 4},
         {"num_attention_heads", 6},
         {"num_key_value_heads", 2},
         {"head_dim", 32},
         {"max_position_embeddings", 128}}}},
      {"qwen3-0.6b",
       {"qwen3",
        {{"vocab_size", 151936},
         {"hidden_size", 1024},
         {"intermediate_size", 3072},
         {"num_hidden_layers", 28},
         {"num_attention_heads", 16},
         {"num_key_value_heads", 8},
         {"head_dim", 128},
         {"max_position_embeddings", 4096},
         {"tie_word_embeddings", true}}}},
      {"bert-tiny",
       {"bert",
        {{"vocab_size", 1000},
         {"hidden_size", 64},
         {"num_hidden_layers", 2},
         {"num_attention_heads", 4},
         {"intermediate_size", 256},
         {"max_position_embeddings", 128}}}},
      {"bert-base", {"bert", Json::object()}}};
  return all;
}

/// NO_DROPOUT of record.py.
const Json& no_dropout() {
  static const Json all{
      {"gpt2", {{"resid_pdrop", 0.0}, {"embd_pdrop", 0.0}, {"attn_pdrop", 0.0}}},
      {"llama", Json::object()},
      {"qwen3", Json::object()},
      {"bert", {{"hidden_dropout_prob", 0.0}, {"attention_probs_dropout_prob", 0.0}}}};
  return all;
}

struct Family {
  std::string class_name;
  std::string blocks;  ///< the list that holds them
};
const std::map<std::string, Family> families{{"gpt2", {"GPT2LMHeadModel", "transformer.h"}},
                                             {"llama", {"LlamaForCausalLM", "model.layers"}},
                                             {"qwen3", {"Qwen3ForCausalLM", "model.layers"}},
                                             {"bert", {"BertForMaskedLM", "bert.encoder.layer"}}};

/// `model_config`, where a case has one (random_cases.py), is the whole config of a causal language
/// model whose blocks are `model.layers`.
Preset preset_of(const Json& settings) {
  if (const auto given = settings.find("model_config"); given != settings.end())
    return {given->at("model_type").get<std::string>(), *given};
  const auto name = settings.at("model").get<std::string>();
  const auto found = presets().find(name);
  if (found == presets().end()) throw Error({"model", fmt::format("no preset \"{}\"", name), {}});
  return found->second;
}

JsonValue config_of(const Json& settings) {
  const Preset preset = preset_of(settings);
  Json config = preset.config;
  config["model_type"] = preset.family;
  if (!settings.at("dropout").get<bool>() && no_dropout().contains(preset.family))
    config.update(no_dropout().at(preset.family));
  config.update(settings.at("model_overrides"));
  if (!settings.at("tied").is_null()) config["tie_word_embeddings"] = settings.at("tied");
  config["use_cache"] = false;
  return JsonValue::parse(config.dump(), "config", DuplicateKeys::last_wins);
}

Family family_of(const Json& settings) {
  const std::string name = preset_of(settings).family;
  if (const auto known = families.find(name); known != families.end()) return known->second;
  return {.class_name = "", .blocks = "model.layers"};  // the family's causal language model
}

Model model_of(const Json& settings, const JsonValue& config) {
  const bool half = settings.at("param_dtype") == "bf16";
  return model_of_config(config, {.class_name = family_of(settings).class_name,
                                  .dtype = half ? Dtype::bfloat16 : Dtype::float32});
}

eager::OptimizerSettings optimizer_of(const Json& settings) {
  using enum eager::OptimizerImplementation;
  const auto name = settings.at("optimizer").get<std::string>();
  const auto implementation = settings.at("opt_impl").get<std::string>();
  eager::OptimizerSettings optimizer{.implementation = implementation == "fused"     ? fused
                                                       : implementation == "forloop" ? loop
                                                                                     : foreach};
  const bool sgd = name.starts_with("sgd");
  optimizer.rule = sgd               ? eager::OptimizerRule::sgd
                   : name == "adamw" ? eager::OptimizerRule::adamw
                                     : eager::OptimizerRule::adam;
  optimizer.weight_decay = !sgd;
  optimizer.momentum = name == "sgd_momentum";
  return optimizer;
}

eager::TrainingSettings training_of(const Json& settings) {
  eager::TrainingSettings training{.batch = settings.at("B").get<std::int64_t>(),
                                   .length = settings.at("T").get<std::int64_t>(),
                                   .micro_batches = settings.at("accum").get<int>(),
                                   .syncs_once = settings.at("no_sync").get<bool>(),
                                   .loss = settings.at("loss") == "model"
                                               ? eager::LossPlace::in_model
                                               : eager::LossPlace::after_model,
                                   .holds_logits = settings.at("hold_logits").get<bool>(),
                                   .clips = !settings.at("clip").is_null(),
                                   .optimizer = optimizer_of(settings),
                                   .zero_grad_to_none = settings.at("set_to_none").get<bool>()};
  if (settings.at("autocast").get<bool>()) training.autocast = Dtype::bfloat16;
  return training;
}

/// The blocks' names, in order.
std::vector<std::string> blocks_of(const Json& settings, const Model& model) {
  const std::string list = family_of(settings).blocks + ".";
  std::vector<std::string> names;
  for (const shardscope::Module& module : model.modules)
    if (module.name.starts_with(list) && module.name.find('.', list.size()) == std::string::npos)
      names.push_back(module.name);
  return names;
}

/// Every ac-th block, from the first on.
eager::CheckpointSetup checkpointing_of(const Json& settings,
                                        const std::vector<std::string>& blocks) {
  const std::size_t every = settings.at("ac").get<std::size_t>();
  eager::CheckpointSetup setup{
      .modules = {}, .options = {.preserve_rng_state = settings.at("ac_rng").get<bool>()}};
  for (std::size_t i = 0; every > 0 && i < blocks.size(); i += every)
    setup.modules.push_back(blocks[i]);
  return setup;
}

struct MixedDtypes {
  std::optional<Dtype> parameters, reduction;
};
MixedDtypes mixed_of(const Json& settings) {
  if (settings.at("mp").is_null()) return {};
  if (settings.at("mp") == "bf16") return {Dtype::bfloat16, Dtype::bfloat16};
  return {Dtype::bfloat16, Dtype::float32};
}

std::vector<int> mesh_of(const Json& settings) {
  if (settings.at("mesh").is_null()) return {settings.at("world").get<int>()};
  return settings.at("mesh").get<std::vector<int>>();
}

eager::ddp::Options ddp_of(const Json& settings) {
  const Json& given = settings.at("ddp");
  eager::ddp::Options options{
      .gradient_as_bucket_view = given.value("gradient_as_bucket_view", false),
      .broadcast_buffers = given.value("broadcast_buffers", true),
      .communication_hook = [](eager::Session&, const eager::Tensor&) {}};
  if (given.contains("find_unused_parameters"))
    options.buckets.find_unused_parameters = given.at("find_unused_parameters").get<bool>();
  if (given.contains("bucket_cap_mb"))
    options.buckets.bucket_cap_mib = given.at("bucket_cap_mb").get<double>();
  if (given.contains("static_graph"))
    options.buckets.static_graph = given.at("static_graph").get<bool>();
  return options;
}

eager::fsdp2::ReshardAfterForward reshard_of(const Json& value) {
  if (value.is_null()) return std::nullopt;
  if (value.is_boolean()) return value.get<bool>();
  return value.get<int>();
}

eager::Fsdp2Setup fsdp2_of(const Json& settings, const std::vector<std::string>& blocks) {
  const MixedDtypes mixed = mixed_of(settings);
  eager::Fsdp2Setup setup{
      .mesh = mesh_of(settings),
      .mixed_precision = {.param_dtype = mixed.parameters, .reduce_dtype = mixed.reduction}};
  if (settings.contains("cpu_offload"))
    setup.offload = eager::fsdp2::CpuOffloadPolicy{settings.at("cpu_offload") == "pinned"};
  for (const std::string& block : blocks)
    setup.calls.push_back({{block}, reshard_of(settings.at("reshard"))});
  if (settings.at("last_no_reshard").get<bool>() && !blocks.empty())
    setup.calls.back().reshard_after_forward = false;
  setup.calls.push_back({{""}, reshard_of(settings.at("reshard_root"))});
  return setup;
}

eager::fsdp1::Options fsdp1_options_of(const Json& settings) {
  const Json& given = settings.at("fsdp1");
  const MixedDtypes mixed = mixed_of(settings);
  eager::fsdp1::Options options{
      .forward_prefetch = given.value("forward_prefetch", false),
      .limit_all_gathers = given.value("limit_all_gathers", true),
      .use_original_parameters = given.value("use_orig_params", false),
      .precision = {.parameters = mixed.parameters, .reduction = mixed.reduction},
      .offload_parameters = given.value("cpu_offload", false)};
  const Json prefetch = given.value("backward_prefetch", Json("BACKWARD_PRE"));
  options.backward_prefetch = prefetch.is_null()            ? eager::fsdp1::BackwardPrefetch::none
                              : prefetch == "BACKWARD_POST" ? eager::fsdp1::BackwardPrefetch::post
                                                            : eager::fsdp1::BackwardPrefetch::pre;
  return options;
}

Fsdp1Settings fsdp1_units_of(const Json& settings, const std::vector<std::string>& blocks) {
  const Json& given = settings.at("fsdp1");
  Fsdp1Settings wanted;
  wanted.world = settings.at("world").get<int>();
  wanted.strategy = torch_strategy(given.value("sharding_strategy", "FULL_SHARD"));
  wanted.use_original_parameters = given.value("use_orig_params", false);
  const MixedDtypes mixed = mixed_of(settings);
  if (mixed.parameters)
    wanted.mixed_precision =
        MixedPrecision{.parameters = mixed.parameters, .reduction = mixed.reduction};
  if (const auto mesh = mesh_of(settings); mesh.size() == 2)
    wanted.mesh = Mesh{.replicate = mesh[0], .shard = mesh[1]};
  CustomWrap wrap;
  for (const std::string& block : blocks)
    wrap.units.push_back({.module = block, .strategy = {}, .use_original_parameters = {}});
  wanted.auto_wrap = wrap;
  return wanted;
}

eager::DeepSpeedSetup deepspeed_of(const Json& settings) {
  Json config = settings.at("deepspeed");
  config["train_micro_batch_size_per_gpu"] = settings.at("B");
  config["gradient_accumulation_steps"] = settings.at("accum");
  return {recorded_deepspeed_settings(std::move(config), settings.at("world").get<std::int64_t>())};
}

eager::RuntimeSetup runtime_of(const Json& settings, const std::vector<std::string>& blocks) {
  const auto strategy = settings.at("strategy").get<std::string>();
  if (strategy == "fsdp1")
    return eager::Fsdp1Setup{fsdp1_units_of(settings, blocks), fsdp1_options_of(settings)};
  if (strategy == "none") return eager::PlainSetup{};
  if (strategy == "ddp") return ddp_of(settings);
  if (strategy == "deepspeed") return deepspeed_of(settings);
  return fsdp2_of(settings, blocks);
}

/// `float8`, of random_cases.py: a recipe's name; FSDP2 gathers what is cast tensorwise.
eager::parallel::Float8Settings float8_of(const Json& settings) {
  using enum eager::parallel::Float8Recipe;
  if (settings.at("float8").is_null()) return {};
  const bool by_rows = settings.at("float8") == "rowwise";
  const bool gathers = !by_rows && settings.at("strategy") == "fsdp2";
  return {.recipe = by_rows ? rowwise : tensorwise,
          .fsdp_all_gather = gathers,
          .pad_inner_dim = !by_rows,
          .precompute_scale = gathers};
}

}  // namespace

Json with_step_defaults(const Json& settings) {
  Json all{{"model_overrides", Json::object()},
           {"tied", nullptr},
           {"dropout", false},
           {"attn", "sdpa"},
           {"param_dtype", "fp32"},
           {"strategy", "none"},
           {"world", 1},
           {"rank", 0},
           {"mesh", nullptr},
           {"mp", nullptr},
           {"reshard", true},
           {"reshard_root", nullptr},
           {"last_no_reshard", false},
           {"ddp", Json::object()},
           {"fsdp1", Json::object()},
           {"deepspeed", Json::object()},
           {"ac", 0},
           {"ac_rng", false},
           {"B", 2},
           {"T", 64},
           {"optimizer", "adamw"},
           {"opt_impl", "foreach"},
           {"iters", 2},
           {"set_to_none", true},
           {"accum", 1},
           {"no_sync", false},
           {"autocast", false},
           {"clip", nullptr},
           {"loss", "outside"},
           {"hold_logits", false},
           {"modules", Json::array()},
           {"trace", false},
           {"float8", nullptr},
           {"liger", false},
           {"cut", false},
           {"empty_cache_after_init", true},
           {"lag", 0},
           {"mem_gib", 80},
           {"conf", ""},
           {"init", "device"},
           {"timeline", false},
           {"tracker", "library"}};
  all.update(settings);
  return all;
}

eager::SessionSettings step_session(bool watched) {
  return {.attention = {.cudnn = false}, .watched = watched};
}

RecordedStep::RecordedStep(eager::Session& s, const Json& settings)
    : model_(model_of(settings, config_of(settings))) {
  const std::vector<std::string> blocks = blocks_of(settings, model_);
  const bool on_meta = settings.at("init") == "meta";
  const bool eager_attention = settings.at("attn") == "eager";
  const eager::TrainingSetup setup{
      .world = settings.at("world").get<int>(),
      .rank = settings.at("rank").get<int>(),
      .runtime = runtime_of(settings, blocks),
      .made_on = on_meta ? eager::Device::meta : eager::Device::cuda,
      .checkpointing = checkpointing_of(settings, blocks),
      .float8 = float8_of(settings),
      .model = {.attention = eager_attention ? eager::AttentionImplementation::eager
                                             : eager::AttentionImplementation::sdpa,
                .liger = settings.at("liger").get<bool>() ? eager::all_liger_kernels
                                                          : eager::LigerKernels{},
                .loss = settings.at("cut").get<bool>() ? eager::LanguageLoss::cut
                                                       : eager::LanguageLoss::upcast},
      .loop = training_of(settings)};
  run_ = std::make_unique<eager::TrainingRun>(s, model_, config_of(settings), setup);
}

std::string snapshot_name(const Json& settings, eager::Moment moment, int micro_batch) {
  static const std::map<eager::Moment, std::string> names{
      {eager::Moment::forward, "after_forward"},   {eager::Moment::loss, "after_loss"},
      {eager::Moment::backward, "after_backward"}, {eager::Moment::clip, "after_clip"},
      {eager::Moment::step, "after_step"},         {eager::Moment::zero_grad, "after_zero_grad"}};
  const bool numbered = settings.at("accum") > 1 && moment <= eager::Moment::backward;
  return names.at(moment) + (numbered ? fmt::format("_{}", micro_batch + 1) : "");
}

}  // namespace shardscope::recordings
