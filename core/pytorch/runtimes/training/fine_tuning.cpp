#include "core/pytorch/runtimes/training/fine_tuning.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/pytorch/engine/adapters/described.h"
#include "core/pytorch/engine/adapters/lora.h"
#include "core/pytorch/engine/adapters/pretrained.h"
#include "core/pytorch/engine/adapters/unsloth.h"
#include "core/pytorch/engine/adapters/unsloth_checkpoint.h"
#include "core/pytorch/engine/copies.h"

namespace shardscope::eager {
namespace {

/// get_input_embeddings: the first Embedding of the model, whose rows are the vocabulary's.
Module& input_embedding(Module& root) {
  for (Module* module : modules_of(root))
    if (module->class_name.ends_with("Embedding") && !module->parameters.empty()) return *module;
  throw Error({.where = root.class_name,
               .what = "has no input embedding whose output could require gradients",
               .way_out = {}});
}

/// Unsloth's functions of quantised weights are known here for 4 bits only.
void check_unsloth_base(const FineTuningSetup& setup) {
  if (!setup.unsloth || !setup.quantization || setup.quantization->is_4bit()) return;
  throw Error({.where = "Unsloth",
               .what = "a quantised base is predicted here in bitsandbytes' 4 bits only",
               .way_out = "quantise it by nf4 or fp4, or leave Unsloth out"});
}

FineTuned loaded(Session& s, Session& maker, const FineTuningInput& input) {
  if (!input.setup.from_pretrained)
    return {make_module(maker, *input.setup.base, input.config, input.settings), {}};
  Pretrained pretrained = load_pretrained(s, maker,
                                          {.model = *input.setup.base,
                                           .config = input.config,
                                           .settings = input.settings,
                                           .quantization = input.setup.quantization,
                                           .automatic_map = input.setup.automatic_map,
                                           .to_host = input.setup.to_host,
                                           .warm_up = input.setup.warm_up,
                                           .free_memory = input.setup.free_memory});
  if (input.setup.empties_cache) s.empty_cache();
  return {std::move(pretrained.module), std::move(pretrained.quantized)};
}

void enable_checkpointing(Session& s, Module& root, const FineTuningSetup& setup) {
  const std::vector<std::string>& names = setup.checkpointed_layers;
  std::shared_ptr<UnslothCheckpoints> offloading;
  if (setup.unsloth && setup.unsloth->offloads_inputs && !names.empty())
    offloading = std::make_shared<UnslothCheckpoints>(s, setup.base->dtype);
  for (Module* module : modules_of(root)) {
    if (std::find(names.begin(), names.end(), module->name) == names.end()) continue;
    if (offloading)
      unsloth_checkpoint_forward(*module, offloading);
    else
      checkpoint_forward(*module, setup.checkpointing);
  }
}

/// _convert_embedding_modules_dtype.
void cast_ends(Session& s, Module& base, Dtype dtype) {
  const NoGrad no_grad(s);
  for (const NamedParameter& p : named_parameters_of(base)) {
    const bool is_end = p.name.find("norm") != std::string::npos ||
                        p.name.ends_with("embed_tokens.weight") ||
                        p.name.ends_with("lm_head.weight");
    if (is_end && p.tensor().dtype() != dtype) p.tensor().set_data(to(s, p.tensor(), dtype));
  }
}

void adapt(Session& s, FineTuned& tuned, const FineTuningInput& input) {
  const FineTuningSetup& setup = input.setup;
  Module& base = *tuned.module;
  if (setup.casts_ends_and_back) cast_ends(s, base, Dtype::float32);
  if (setup.prepares_for_kbit) prepare_for_kbit_training(s, base, tuned.quantized);
  if (setup.casts_ends_and_back) cast_ends(s, base, setup.base->dtype);
  enable_checkpointing(s, base, setup);
  // transformers' gradient_checkpointing_enable asks for them itself.
  if (setup.input_gradients || !setup.checkpointed_layers.empty())
    require_input_gradients(input_embedding(base));
  if (setup.adapter) {
    const bool converts = setup.base->transformers == TransformersVersion::v5;
    tuned.module = put_adapter(s, tuned.module,
                               {.config = *setup.adapter,
                                .quantized = tuned.quantized,
                                .converted_family = converts ? setup.base->family : ""});
  }
  if (setup.litgpt_adapter)
    put_litgpt_adapter(s, *tuned.module,
                       {.adapter = *setup.litgpt_adapter,
                        .config = input.config,
                        .quantized = tuned.quantized,
                        .dtype = setup.base->dtype});
  if (setup.litgpt_lora)
    put_litgpt_lora(s, *tuned.module,
                    {.lora = *setup.litgpt_lora,
                     .config = input.config,
                     .quantized = tuned.quantized,
                     .dtype = setup.base->dtype});
  if (setup.unsloth)
    patch_unsloth(s, *tuned.module,
                  {.settings = *setup.unsloth,
                   .config = input.config,
                   .quantized = tuned.quantized,
                   .dtype = setup.base->dtype});
  if (setup.casts_ends_and_back) s.empty_cache();
  if (!setup.trainable_dtype) return;
  const NoGrad no_grad(s);
  const auto is_kept = [&](const std::string& name) {
    return setup.keeps_magnitudes && name.find("lora_magnitude_vector") != std::string::npos;
  };
  for (const NamedParameter& p : named_parameters_of(*tuned.module))
    if (p.tensor().requires_grad() && !is_kept(p.name))
      p.tensor().set_data(to(s, p.tensor(), *setup.trainable_dtype));
}

}  // namespace

FineTuned fine_tuned(Session& s, Session& maker, const FineTuningInput& input,
                     const SetupProbe& probe) {
  check_unsloth_base(input.setup);
  FineTuned tuned = loaded(s, maker, input);
  if (probe) probe(SetupMoment::loaded);
  adapt(s, tuned, input);
  if (probe) probe(SetupMoment::adapted);
  return tuned;
}

shardscope::Model fine_tuned_model(const FineTuningInput& input) {
  SessionSettings settings;
  settings.device = Device::meta;
  Session meta(settings);
  const FineTuned tuned = fine_tuned(meta, meta, input, {});
  return described(*tuned.module, *input.setup.base);
}

}  // namespace shardscope::eager
