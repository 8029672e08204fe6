#include "cli/fine_tuning_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "cli/on_off.h"
#include "cli/release.h"
#include "core/base/error.h"
#include "core/model/read_lora_config.h"
#include "core/model/read_quantization.h"
#include "core/pytorch/runtimes/training/requested_setup.h"

namespace shardscope {
namespace {

/// `where`: an option, or the place in a file.
Dtype weight_dtype(std::string_view text, std::string_view where) {
  const Dtype dtype = parse_dtype(text, where);
  if (dtype == Dtype::float32 || dtype == Dtype::bfloat16 || dtype == Dtype::float16) return dtype;
  throw Error({.where = std::string(where),
               .what = fmt::format("\"{}\" is none of float32, bfloat16, float16", text),
               .way_out = "give one of them"});
}

std::optional<Dtype> dtype_of(const std::optional<std::string>& text, std::string_view option) {
  if (!text) return std::nullopt;
  return weight_dtype(*text, option);
}

/// The config's own: transformers 5 loads with dtype="auto".
std::optional<Dtype> stated_dtype(const JsonValue& config) {
  for (const char* key : {"dtype", "torch_dtype"})
    if (const auto value = config.find(key);
        value && value->is_string() && value->string() != "auto")
      return weight_dtype(value->string(), value->where());
  return std::nullopt;
}

/// The dtype that from_pretrained loads in: that of --base-dtype or --precision, else the config's.
Dtype dtype_of_base(const FineTuningOptions& options, const std::optional<std::string>& precision,
                    const JsonValue& config) {
  if (const auto given = dtype_of(options.base_dtype, "--base-dtype")) return *given;
  if (precision) return loaded_dtype(parse_training_precision(*precision, "--precision"));
  return stated_dtype(config).value_or(Dtype::bfloat16);
}

bool prepares(const FineTuningOptions& options) {
  return options.prepare_kbit && parse_on_off(*options.prepare_kbit, "--prepare-kbit");
}

/// None: off.
std::optional<eager::UnslothSettings> unsloth_of(const FineTuningOptions& options,
                                                 const Model& model) {
  if (!options.uses_unsloth()) return std::nullopt;
  if (*options.unsloth != "xformers" && *options.unsloth != "sdpa")
    throw Error(
        {.where = "--unsloth",
         .what = fmt::format("expected xformers, sdpa or off, got \"{}\"", *options.unsloth),
         .way_out = {}});
  if (!options.peft)
    throw Error({.where = "--unsloth",
                 .what = "only its adapters are known here, not full fine-tuning",
                 .way_out = "add --peft r=16,targets=all-linear, or leave it out"});
  if (!eager::has_unsloth_patches(model.family))
    throw Error({.where = "--unsloth",
                 .what = fmt::format("its patches of {} are not known here", model.family),
                 .way_out = "it is known for llama, mistral, qwen2 and qwen3"});
  return eager::UnslothSettings{.xformers = *options.unsloth == "xformers"};
}

}  // namespace

void declare_fine_tuning_options(Command& command, FineTuningOptions& options) {
  command.heading("Fine-tuning (with --runtime, --accelerate or --deepspeed)");
  command.option(
      "--peft", options.peft,
      {"FILE|r=16,alpha=32,...",
       "LoRA or DoRA by PEFT: an adapter_config.json or its folder, or r, alpha, "
       "dropout, targets=NAME+NAME or all-linear, parameters=NAME+NAME (such as experts'), "
       "save=NAME+NAME, dora, rslora"});
  command.option(
      "--quantization", options.quantization,
      {"nf4|fp4|int8|gptq|awq",
       "quantised base: nf4 or fp4 of bitsandbytes, with "
       "double,compute=DTYPE,storage=DTYPE,bitsandbytes=VERSION; its int8; or weights "
       "packed by gptq or awq, with group=128 (default: quantization_config of config.json)"});
  command.option(
      "--prepare-kbit", options.prepare_kbit,
      {"on|off",
       "PEFT's prepare_model_for_kbit_training: what is not quantised is kept in float32 "
       "(default: off)"});
  command.option("--peft-version", options.peft_version,
                 {"VERSION",
                  "PEFT's release, 0.9 to 0.21: before 0.12 adapters have the dtype of the base "
                  "(default: 0.21)"});
  command.option("--base-dtype", options.base_dtype,
                 {"DTYPE",
                  "dtype that the weights are loaded in: float32, bfloat16, float16 (default: that "
                  "of --precision, else of config.json)"});
  command.option("--trainable-dtype", options.trainable_dtype,
                 {"DTYPE", "dtype that what trains is cast to before training (default: none)"});
  command.option(
      "--unsloth", options.unsloth,
      {"xformers|sdpa|off",
       "Unsloth's FastLanguageModel on one GPU: its kernels, its loss in parts, and with "
       "--checkpointing full the inputs of blocks in host memory. xformers and sdpa say what "
       "computes attention; sdpa is PyTorch, where xformers is not installed (default: off)"});
}

namespace {

bool is_peft_before(int minor, const std::optional<std::string>& version) {
  constexpr KnownReleases known{
      .library = "PEFT", .option = "--peft-version", .major = "0.", .oldest = 9, .newest = 21};
  return version && minor_release(known, *version) < minor;
}

}  // namespace

bool adapters_as_base(const std::optional<std::string>& peft_version) {
  constexpr int first_to_cast = 12;
  return is_peft_before(first_to_cast, peft_version);
}

Dtype loaded_dtype(TrainingPrecision precision) {
  if (precision == TrainingPrecision::fp32) return Dtype::float32;
  return precision == TrainingPrecision::fp16_mixed ? Dtype::float16 : Dtype::bfloat16;
}

Model in_given_dtypes(const FineTuningOptions& options, Model model) {
  auto dtype = dtype_of(options.trainable_dtype, "--trainable-dtype");
  if (!dtype) dtype = dtype_of(options.base_dtype, "--base-dtype");
  return dtype ? with_dtype(std::move(model), *dtype) : model;
}

Model as_loaded(const FineTuningOptions& options, const JsonValue& config, Model model) {
  auto dtype = dtype_of(options.base_dtype, "--base-dtype");
  if (!dtype) dtype = stated_dtype(config);
  return dtype ? with_dtype(std::move(model), *dtype) : model;
}

std::optional<eager::FineTuningSetup> fine_tuning_of(const FineTuningOptions& options,
                                                     const JobOptions& job, const Model& model,
                                                     const JsonValue& config,
                                                     std::vector<std::string>& assumed) {
  eager::FineTuningSetup tuning;
  tuning.quantization = options.quantization
                            ? parse_quantization(*options.quantization, "--quantization")
                            : read_quantization(config);
  if (!tuning.quantization && !options.peft) {
    unsloth_of(options, model);
    if (prepares(options))
      throw Error({.where = "--prepare-kbit",
                   .what = "prepares a quantised base for adapters, and there is none",
                   .way_out = "add --quantization nf4 and --peft, or leave it out"});
    return std::nullopt;
  }
  tuning.unsloth = unsloth_of(options, model);
  if (options.peft) tuning.adapter = parse_lora_config(*options.peft, "--peft", model.family);
  // Read in the wheels of 0.16.0 to 0.19.0.
  constexpr int first_with_parameters = 17, first_to_convert = 19;
  if (tuning.adapter && !tuning.adapter->target_parameters.empty() &&
      is_peft_before(first_with_parameters, options.peft_version))
    throw Error({.where = "--peft-version",
                 .what = fmt::format("PEFT {} has no target_parameters", *options.peft_version),
                 .way_out = "give 0.17 or later, or leave the parameters out of --peft"});
  if (tuning.adapter)
    tuning.adapter->converts_targets = !is_peft_before(first_to_convert, options.peft_version);
  if (tuning.adapter && tuning.adapter->adaptive_rank)
    assumed.emplace_back("AdaLoRA's update_and_allocate runs after each step");
  if (tuning.quantization && !tuning.adapter)
    throw Error(
        {.where = options.quantization ? "--quantization" : "config.json: quantization_config",
         .what = "a quantised base does not train by itself",
         .way_out = "add --peft, for example --peft r=16,targets=all-linear"});
  const Dtype dtype = dtype_of_base(options, job.precision, config);
  tuning.base = std::make_shared<const Model>(with_dtype(model, dtype));
  tuning.trainable_dtype = dtype_of(options.trainable_dtype, "--trainable-dtype");
  tuning.keeps_magnitudes = options.keeps_magnitudes;
  tuning.prepares_for_kbit = prepares(options);
  tuning.casts_ends_and_back = options.casts_ends_and_back;
  if (!job.precision && !options.base_dtype)
    assumed.push_back(fmt::format("base weights loaded in {} (--base-dtype)", name_of(dtype)));
  if (tuning.quantization && tuning.quantization->kind == QuantizationKind::int8)
    assumed.emplace_back("inputs of int8 layers have no outlier columns");
  return tuning;
}

std::string fine_tuning_words(const eager::FineTuningSetup& tuning) {
  using enum QuantizationKind;
  constexpr std::array<std::pair<QuantizationKind, std::string_view>, 5> kinds{
      {{nf4, "nf4"}, {fp4, "fp4"}, {int8, "int8"}, {gptq, "GPTQ"}, {awq, "AWQ"}}};
  std::string words;
  if (const auto& base = tuning.quantization)
    for (const auto& [kind, name] : kinds)
      if (kind == base->kind)
        words += fmt::format(", {} base{}", name,
                             base->double_quantization ? " (double quantisation)" : "");
  if (const auto& lora = tuning.adapter)
    words += fmt::format(", {} r={}",
                         lora->dora            ? "DoRA"
                         : lora->adaptive_rank ? "AdaLoRA"
                                               : "LoRA",
                         lora->rank);
  return words + (tuning.unsloth ? ", Unsloth" : "");
}

void apply_fine_tuning(eager::FineTuningSetup tuning,
                       const std::optional<std::string>& checkpointing,
                       eager::TrainingSetup& setup) {
  if (tuning.unsloth && setup.world > 1)
    throw Error({.where = "--unsloth",
                 .what = fmt::format("is predicted on one GPU only, and there are {}", setup.world),
                 .way_out = "give --world 1, or leave it out"});
  const bool plain = std::holds_alternative<eager::PlainSetup>(setup.runtime) ||
                     std::holds_alternative<eager::ddp::Options>(setup.runtime);
  if (tuning.unsloth && !plain)
    throw Error({.where = "--unsloth",
                 .what = "is predicted without FSDP and DeepSpeed only",
                 .way_out = "give --runtime ddp, or leave it out"});
  if (checkpointing)
    eager::set_checkpointing(eager::parse_checkpoint_choice(*checkpointing, "--checkpointing"),
                             tuning);
  eager::set_fine_tuning(std::move(tuning), setup);
}

}  // namespace shardscope
