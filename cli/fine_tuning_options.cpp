#include "cli/fine_tuning_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/model/read_lora_config.h"
#include "core/model/read_quantization.h"
#include "core/pytorch/runtimes/training/requested_setup.h"

namespace shardscope {
namespace {

/// The dtype that from_pretrained loads in: that of --precision, else the config's own
/// (transformers 5: dtype="auto").
Dtype dtype_of_base(const std::optional<std::string>& precision, const JsonValue& config) {
  if (precision == "fp32") return Dtype::float32;
  if (precision == "fp16_mixed") return Dtype::float16;
  if (precision) return Dtype::bfloat16;
  for (const char* key : {"dtype", "torch_dtype"})
    if (const auto value = config.find(key);
        value && value->is_string() && value->string() != "auto")
      return parse_dtype(value->string(), value->where());
  return Dtype::bfloat16;
}

bool is_on(const std::optional<std::string>& text) {
  if (!text || *text == "off") return false;
  if (*text == "on") return true;
  throw Error({.where = "--prepare-kbit",
               .what = fmt::format("\"{}\" is none of on, off", *text),
               .way_out = {}});
}

bool is_block(const Model& model, const Module& module) {
  const std::vector<std::string>& classes = model.no_split_classes;
  return std::find(classes.begin(), classes.end(), module.class_name) != classes.end();
}

}  // namespace

void declare_fine_tuning_options(Command& command, FineTuningOptions& options) {
  command.heading("Fine-tuning (with --runtime, --accelerate or --deepspeed)");
  command.option("--peft", options.peft,
                 {"FILE|r=16,alpha=32,...",
                  "LoRA or DoRA by PEFT: an adapter_config.json or its folder, or r, alpha, "
                  "dropout, targets=NAME+NAME or all-linear, save=NAME+NAME, dora, rslora"});
  command.option("--quantization", options.quantization,
                 {"nf4|fp4|int8",
                  "base by bitsandbytes: also nf4,double,compute=DTYPE,storage=DTYPE (default: "
                  "quantization_config of config.json)"});
  command.option(
      "--prepare-kbit", options.prepare_kbit,
      {"on|off",
       "PEFT's prepare_model_for_kbit_training: what is not quantised is kept in float32 "
       "(default: off)"});
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
    if (is_on(options.prepare_kbit))
      throw Error({.where = "--prepare-kbit",
                   .what = "prepares a quantised base for adapters, and there is none",
                   .way_out = "add --quantization nf4 and --peft, or leave it out"});
    return std::nullopt;
  }
  if (options.peft) tuning.adapter = parse_lora_config(*options.peft, "--peft", model.family);
  if (tuning.quantization && !tuning.adapter)
    throw Error(
        {.where = options.quantization ? "--quantization" : "config.json: quantization_config",
         .what = "a quantised base does not train by itself",
         .way_out = "add --peft, for example --peft r=16,targets=all-linear"});
  const Dtype dtype = dtype_of_base(job.precision, config);
  Model base = model;
  base.dtype = dtype;
  for (Parameter& parameter : base.parameters) parameter.dtype = dtype;
  tuning.base = std::make_shared<const Model>(std::move(base));
  tuning.prepares_for_kbit = is_on(options.prepare_kbit);
  if (!job.precision)
    assumed.push_back(fmt::format("base weights loaded in {} (--precision)", name_of(dtype)));
  if (tuning.quantization && tuning.quantization->kind == QuantizationKind::int8)
    assumed.emplace_back("inputs of int8 layers have no outlier columns");
  return tuning;
}

void apply_fine_tuning(eager::FineTuningSetup tuning,
                       const std::optional<std::string>& checkpointing,
                       eager::TrainingSetup& setup) {
  if (checkpointing) {
    const auto choice = eager::parse_checkpoint_choice(*checkpointing, "--checkpointing");
    if (choice.selective)
      throw Error({.where = "--checkpointing",
                   .what = "transformers checkpoints whole blocks",
                   .way_out = "give full, every:K or none"});
    int number = 0;
    for (const Module& module : tuning.base->modules)
      if (choice.every > 0 && is_block(*tuning.base, module) && number++ % choice.every == 0)
        tuning.checkpointed_layers.push_back(module.name);
    tuning.input_gradients = !tuning.checkpointed_layers.empty();
  }
  eager::set_fine_tuning(std::move(tuning), setup);
}

}  // namespace shardscope
