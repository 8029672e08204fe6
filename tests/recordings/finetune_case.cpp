// The settings of record.py of ../shared/data/pytorch/finetune as a training under PyTorch.
#include <fmt/format.h>

#include <map>

#include "core/base/error.h"
#include "core/model/bounded_pattern.h"
#include "core/model/family.h"
#include "core/model/huggingface.h"
#include "core/model/read_lora_config.h"
#include "tests/recordings/finetune.h"
#include "tests/recordings/fsdp1_case.h"
#include "tests/recordings/recorded_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using eager::RuntimeSetup;

struct Preset {
  std::string family;
  Json config;
};

/// PRESETS of record.py.
const std::map<std::string, Preset>& presets() {
  static const std::map<std::string, Preset> all{
      {"llama-tiny",
       {"llama",
        {{"vocab_size", 1000},
         {"hidden_size", 128},
         {"intermediate_size", 344},
         {"num_hidden_layers", 3},
         {"num_attention_heads", 4},
         {"num_key_value_heads", 2},
         {"max_position_embeddings", 256}}}},
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
      {"qwen2-tiny",
       {"qwen2",
        {{"vocab_size", 1003},
         {"hidden_size", 192},
         {"intermediate_size", 500},
         {"num_hidden_layers", 4},
         {"num_attention_heads", 6},
         {"num_key_value_heads", 2},
         {"max_position_embeddings", 256},
         {"tie_word_embeddings", true}}}},
      {"qwen2-0.5b",
       {"qwen2",
        {{"vocab_size", 151936},
         {"hidden_size", 896},
         {"intermediate_size", 4864},
         {"num_hidden_layers", 24},
         {"num_attention_heads", 14},
         {"num_key_value_heads", 2},
         {"max_position_embeddings", 4096},
         {"tie_word_embeddings", true}}}},
      {"mistral-tiny",
       {"mistral",
        {{"vocab_size", 1024},
         {"hidden_size", 128},
         {"intermediate_size", 448},
         {"num_hidden_layers", 3},
         {"num_attention_heads", 4},
         {"num_key_value_heads", 2},
         {"max_position_embeddings", 256},
         {"sliding_window", nullptr}}}},
      {"mistral-7b",
       {"mistral",
        {{"vocab_size", 32000},
         {"hidden_size", 4096},
         {"intermediate_size", 14336},
         {"num_hidden_layers", 32},
         {"num_attention_heads", 32},
         {"num_key_value_heads", 8},
         {"max_position_embeddings", 8192},
         {"sliding_window", nullptr}}}},
      {"gemma-tiny",
       {"gemma",
        {{"vocab_size", 1000},
         {"hidden_size", 128},
         {"intermediate_size", 352},
         {"num_hidden_layers", 3},
         {"num_attention_heads", 4},
         {"num_key_value_heads", 1},
         {"head_dim", 32},
         {"max_position_embeddings", 256},
         {"tie_word_embeddings", true}}}},
      {"phi3-tiny",
       {"phi3",
        {{"vocab_size", 1000},
         {"hidden_size", 128},
         {"intermediate_size", 344},
         {"num_hidden_layers", 3},
         {"num_attention_heads", 4},
         {"num_key_value_heads", 2},
         {"max_position_embeddings", 256},
         {"original_max_position_embeddings", 256},
         {"pad_token_id", 0},
         {"sliding_window", nullptr}}}},
      {"qwen3-tiny",
       {"qwen3",
        {{"vocab_size", 1003},
         {"hidden_size", 128},
         {"intermediate_size", 344},
         {"num_hidden_layers", 3},
         {"num_attention_heads", 4},
         {"num_key_value_heads", 2},
         {"head_dim", 64},
         {"max_position_embeddings", 256},
         {"tie_word_embeddings", true}}}},
      {"gpt2-tiny",
       {"gpt2",
        {{"vocab_size", 1000},
         {"n_positions", 256},
         {"n_embd", 128},
         {"n_layer", 2},
         {"n_head", 4},
         {"resid_pdrop", 0.0},
         {"embd_pdrop", 0.0},
         {"attn_pdrop", 0.0}}}},
      {"gpt2-124m", {"gpt2", {{"resid_pdrop", 0.0}, {"embd_pdrop", 0.0}, {"attn_pdrop", 0.0}}}}};
  return all;
}

struct Family {
  std::string class_name;
  std::string blocks;  ///< the list that holds them
};
const std::map<std::string, Family> families{{"gemma", {"GemmaForCausalLM", "model.layers"}},
                                             {"gpt2", {"GPT2LMHeadModel", "transformer.h"}},
                                             {"llama", {"LlamaForCausalLM", "model.layers"}},
                                             {"mistral", {"MistralForCausalLM", "model.layers"}},
                                             {"phi3", {"Phi3ForCausalLM", "model.layers"}},
                                             {"qwen2", {"Qwen2ForCausalLM", "model.layers"}},
                                             {"qwen3", {"Qwen3ForCausalLM", "model.layers"}}};

/// DEFAULTS of record.py.
Json with_defaults(const Json& given) {
  Json all{{"model_overrides", Json::object()},
           {"base_dtype", "bf16"},
           {"load", "pretrained"},
           {"quant", nullptr},
           {"double_quant", false},
           {"compute_dtype", "bf16"},
           {"quant_storage", "uint8"},
           {"prepare_kbit", nullptr},
           {"peft", nullptr},
           {"autocast_adapter_dtype", true},
           {"adapter_dtype", nullptr},
           {"freeze", nullptr},
           {"gc", false},
           {"require_grads", false},
           {"autocast", false},
           {"optimizer", "adamw"},
           {"opt_impl", "foreach"},
           {"strategy", "none"},
           {"world", 1},
           {"rank", 0},
           {"mp", nullptr},
           {"reshard", true},
           {"fsdp1", Json::object()},
           {"ddp", Json::object()},
           {"B", 2},
           {"T", 64},
           {"padded", false},
           {"lengths", Json::array()},
           {"clip", 1.0},
           {"iters", 3},
           {"phases", Json::array()},
           {"conf", ""},
           {"mem_gib", 80}};
  all.update(given);
  return all;
}

bool truthy(const Json& value) { return value.is_boolean() && value.get<bool>(); }

/// A whole config stands under model_config, of a family that the recorder has no preset of.
Preset preset_of(const Json& settings) {
  if (settings.contains("model_config"))
    return {settings.at("model").get<std::string>(), settings.at("model_config")};
  const auto found = presets().find(settings.at("model").get<std::string>());
  if (found == presets().end())
    throw Error({"model", "no preset " + settings.at("model").dump(), {}});
  return found->second;
}

Family family_of(const Json& settings) {
  const std::string name = preset_of(settings).family;
  const auto known = families.find(name);
  if (known != families.end()) return known->second;
  return {std::string(find_family(name)->default_class), "model.layers"};
}

JsonValue config_of(const Json& settings) {
  Json config = preset_of(settings).config;
  config["model_type"] = preset_of(settings).family;
  config.update(settings.at("model_overrides"));
  config["use_cache"] = false;
  return JsonValue::parse(config.dump(), "config", DuplicateKeys::last_wins);
}

Dtype dtype_of(const Json& name) {
  return name == "uint8" ? Dtype::uint8 : recorded_dtype(name.get<std::string>());
}

Model model_of(const Json& settings, const JsonValue& config) {
  return model_of_config(config, {.class_name = family_of(settings).class_name,
                                  .dtype = dtype_of(settings.at("base_dtype"))});
}

void freeze(Model& model, const Json& pattern) {
  if (pattern.is_null()) return;
  const std::regex names = bounded_pattern(pattern.get<std::string>(), "freeze", "");
  for (Parameter& p : model.parameters) p.trainable = !std::regex_search(p.name, names);
}

std::vector<std::string> blocks_of(const Json& settings, const Model& model) {
  const std::string list = family_of(settings).blocks + ".";
  std::vector<std::string> names;
  for (const shardscope::Module& module : model.modules)
    if (module.name.starts_with(list) && module.name.find('.', list.size()) == std::string::npos)
      names.push_back(module.name);
  return names;
}

std::optional<Quantization> quantization_of(const Json& settings) {
  if (settings.at("quant").is_null()) return std::nullopt;
  const auto kind = settings.at("quant").get<std::string>();
  return Quantization{.kind = kind == "nf4"   ? QuantizationKind::nf4
                              : kind == "fp4" ? QuantizationKind::fp4
                                              : QuantizationKind::int8,
                      .double_quantization = settings.at("double_quant").get<bool>(),
                      .compute_dtype = dtype_of(settings.at("compute_dtype")),
                      .storage_dtype = dtype_of(settings.at("quant_storage"))};
}

eager::FineTuningSetup fine_tuning_of(const Json& settings, const Model& model) {
  eager::FineTuningSetup setup{.base = std::make_shared<const Model>(model),
                               .from_pretrained = settings.at("load") == "pretrained",
                               .quantization = quantization_of(settings),
                               .prepares_for_kbit = truthy(settings.at("prepare_kbit")),
                               .input_gradients = settings.at("require_grads").get<bool>()};
  if (settings.at("gc").get<bool>()) setup.checkpointed_layers = blocks_of(settings, model);
  if (!settings.at("peft").is_null()) {
    setup.adapter = read_lora_config(
        JsonValue::parse(settings.at("peft").dump(), "peft", DuplicateKeys::last_wins),
        model.family);
    setup.adapter->autocast_adapter_dtype = settings.at("autocast_adapter_dtype").get<bool>();
  }
  if (!settings.at("adapter_dtype").is_null())
    setup.trainable_dtype = dtype_of(settings.at("adapter_dtype"));
  return setup;
}

eager::OptimizerSettings optimizer_of(const Json& settings) {
  using enum eager::OptimizerImplementation;
  const auto implementation = settings.at("opt_impl").get<std::string>();
  eager::OptimizerSettings optimizer{.implementation = implementation == "fused"     ? fused
                                                       : implementation == "forloop" ? loop
                                                                                     : foreach};
  const auto name = settings.at("optimizer").get<std::string>();
  if (name == "adafactor")
    optimizer.rule = eager::OptimizerRule::adafactor;
  else if (name != "adamw")
    optimizer.bitsandbytes =
        eager::BitsAndBytesOptimizer{.bits = name.ends_with("8bit") ? 8 : 32,
                                     .paged = name.starts_with("paged"),
                                     .one_moment = name.find("lion") != std::string::npos};
  return optimizer;
}

eager::TrainingSettings training_of(const Json& settings) {
  eager::TrainingSettings training{
      .batch = settings.at("B").get<std::int64_t>(),
      .length = settings.at("T").get<std::int64_t>(),
      .lengths = settings.at("lengths").get<std::vector<std::int64_t>>(),
      .pads = settings.at("padded").get<bool>(),
      .clips = !settings.at("clip").is_null(),
      .optimizer = optimizer_of(settings)};
  if (settings.at("autocast").get<bool>()) training.autocast = Dtype::bfloat16;
  return training;
}

struct MixedDtypes {
  std::optional<Dtype> parameters, reduction;
};
MixedDtypes mixed_of(const Json& settings) {
  if (settings.at("mp").is_null()) return {};
  if (settings.at("mp") == "bf16") return {Dtype::bfloat16, Dtype::bfloat16};
  return {Dtype::bfloat16, Dtype::float32};
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

/// The blocks' names once the adapter is there.
std::string placed(const Json& settings, const std::string& block) {
  return settings.at("peft").is_null() ? block : "base_model.model." + block;
}

eager::Fsdp2Setup fsdp2_of(const Json& settings, const Model& model) {
  const MixedDtypes mixed = mixed_of(settings);
  eager::Fsdp2Setup setup{
      .mesh = {settings.at("world").get<int>()},
      .mixed_precision = {.param_dtype = mixed.parameters, .reduce_dtype = mixed.reduction}};
  for (const std::string& block : blocks_of(settings, model))
    setup.calls.push_back({{placed(settings, block)}, settings.at("reshard").get<bool>()});
  setup.calls.push_back({{""}, {}});
  return setup;
}

/// The modules of the policy: blocks, and leaves with a weight that trains.
std::vector<std::string> fsdp1_units(const Json& settings, const Model& model,
                                     const Model& adapted) {
  std::vector<std::string> units;
  for (const std::string& block : blocks_of(settings, model))
    units.push_back(placed(settings, block));
  if (!settings.at("fsdp1").value("wrap_adapters", false)) return units;
  for (const Parameter& p : adapted.parameters)
    if (p.trainable && p.name.ends_with(".weight"))
      units.push_back(p.name.substr(0, p.name.rfind('.')));
  return units;
}

eager::Fsdp1Setup fsdp1_of(const Json& settings, const Model& model, const Model& adapted) {
  const Json& given = settings.at("fsdp1");
  const MixedDtypes mixed = mixed_of(settings);
  const bool original = given.value("use_orig_params", true);
  Fsdp1Settings units;
  units.world = settings.at("world").get<int>();
  units.strategy = torch_strategy(given.value("sharding_strategy", "FULL_SHARD"));
  units.use_original_parameters = original;
  units.ranks_per_node = units.world;
  if (mixed.parameters)
    units.mixed_precision =
        MixedPrecision{.parameters = mixed.parameters, .reduction = mixed.reduction};
  units.auto_wrap = NameWrap{fsdp1_units(settings, model, adapted)};
  eager::fsdp1::Options options{
      .forward_prefetch = given.value("forward_prefetch", false),
      .limit_all_gathers = given.value("limit_all_gathers", true),
      .use_original_parameters = original,
      .precision = {.parameters = mixed.parameters, .reduction = mixed.reduction},
      .offload_parameters = given.value("cpu_offload", false)};
  return {std::move(units), std::move(options)};
}

RuntimeSetup runtime_of(const FineTuneCase& recorded) {
  const Json& settings = recorded.settings;
  const auto strategy = settings.at("strategy").get<std::string>();
  if (strategy == "none") return eager::PlainSetup{};
  if (strategy == "ddp") return ddp_of(settings);
  if (strategy == "fsdp2") return fsdp2_of(settings, recorded.model);
  const Model adapted =
      eager::fine_tuned_model({recorded.config, recorded.setup.model, *recorded.setup.fine_tuning});
  return fsdp1_of(settings, recorded.model, adapted);
}

}  // namespace

FineTuneCase::FineTuneCase(const Json& given)
    : settings(with_defaults(given)),
      config(config_of(settings)),
      model(model_of(settings, config)) {
  freeze(model, settings.at("freeze"));
  setup = {.world = settings.at("world").get<int>(),
           .rank = settings.at("rank").get<int>(),
           .fine_tuning = fine_tuning_of(settings, model),
           .made_on = settings.at("load") == "meta" ? eager::Device::meta : eager::Device::cuda,
           .session = {.attention = {.cudnn = false}},
           .loop = training_of(settings)};
  setup.model = eager::usual_settings(model);
  setup.runtime = runtime_of(*this);
}

}  // namespace shardscope::recordings
