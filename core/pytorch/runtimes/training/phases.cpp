#include "core/pytorch/runtimes/training/phases.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/pytorch/engine/adapters/merge.h"
#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"

namespace shardscope::eager {

void set_training(Module& root, bool on) {
  for (Module* module : modules_of(root)) module->training = on;
}

Tensor evaluate(Session& s, TrainingRun& run, std::int64_t sequences) {
  const TrainingSettings& settings = run.loop().settings();
  const NoGrad no_grad(s);
  std::optional<Autocast> autocast;
  if (settings.autocast) autocast.emplace(s, *settings.autocast);
  return run.loop().evaluated(sequences);
}

namespace {

/// The name without the adapter's own: get_peft_model_state_dict.
std::string saved_name(std::string name) {
  constexpr std::string_view ddp_prefix = "module.", magnitude = ".lora_magnitude_vector.weight";
  for (const std::string_view part : {"modules_to_save.default.", "original_module."})
    if (const std::size_t at = name.find(part); at != std::string::npos)
      name.erase(at, part.size());
  constexpr std::string_view adapter = ".default";
  if (const std::size_t at = name.find(adapter); at != std::string::npos)
    name.erase(at, adapter.size());
  // DDP's module is saved without its wrapper, DoRA's magnitude as a bare tensor.
  if (name.starts_with(ddp_prefix)) name.erase(0, ddp_prefix.size());
  if (name.ends_with(magnitude)) name.erase(name.rfind('.'));
  return name;
}

/// The state of quantised layers, whose second tables are cloned so that safetensors meets no
/// shared tensor.
NamedTensors quantized_state(Session& s, const TrainingRun& run) {
  NamedTensors entries;
  if (!run.saves_quantized_state()) return entries;
  const NoGrad no_grad(s);
  for (const QuantizedLayers::Entry& entry : run.quantized().entries())
    for (auto& [name, tensor] : entry.layer->saved_state(s))
      entries.emplace_back(entry.module->name + "." + name, std::move(tensor));
  return entries;
}

/// get_peft_model_state_dict, EMBEDDING_LAYER_NAMES: what is looked for among target_modules.
bool targets_embeddings(const LoraConfig& adapter) {
  const LoraTargets targets(adapter);
  const std::vector<std::string>& names = adapter.targets.names;
  for (const char* embedding : {"embed_tokens", "lm_head"}) {
    if (std::ranges::find(names, embedding) != names.end()) return true;
    if (!adapter.targets.pattern.empty() && targets.has({.name = embedding})) return true;
  }
  return false;
}

SafetensorsTensor described(std::string name, const Tensor& tensor) {
  SafetensorsTensor entry;
  entry.name = std::move(name);
  entry.dtype = tensor.dtype();
  entry.shape = {tensor.sizes().begin(), tensor.sizes().end()};
  return entry;
}

/// Base layers of an adapted embedding or head.
void add_embeddings(Module& root, std::vector<SafetensorsTensor>& tensors) {
  for (const Module* module : modules_of(root)) {
    if (!module->class_name.starts_with("lora.")) continue;
    const std::string own = module->name.substr(module->name.rfind('.') + 1);
    if (own != "lm_head" && own != "embed_tokens") continue;
    const Module& base = *module->children[0].module;
    for (const Module::NamedTensor& kept : base.parameters)
      if (kept.tensor && !kept.tensor.requires_grad())
        tensors.push_back(described(module->name + ".base_layer." + kept.name, kept.tensor));
  }
}

/// _get_fqns follows every key by getattr. QuantState answers for its description with a state dict
/// of its own, whose second table is a copy.
void follow_keys(Session& s, const TrainingRun& run) {
  const NoGrad no_grad(s);
  for (const QuantizedLayers::Entry& entry : run.quantized().entries()) entry.layer->saved_state(s);
}

NamedTensors with_quantized(Session& s, TrainingRun& run, const NamedTensors& quantized,
                            const FullStateDict& wanted) {
  NamedTensors entries = run.model().full_state_dict(s, wanted);
  if (entries.empty()) return {};
  const NoGrad no_grad(s);
  for (const auto& [name, tensor] : quantized)
    entries.emplace_back(name,
                         wanted.cpu_offload ? to(s, tensor, {.device = Device::cpu}) : tensor);
  return entries;
}

}  // namespace

NamedTensors whole_state_dict(Session& s, TrainingRun& run, const FullStateDict& wanted) {
  return with_quantized(s, run, quantized_state(s, run), wanted);
}

NamedTensors full_state_dict(Session& s, TrainingRun& run, const FullStateDict& wanted) {
  const NamedTensors quantized = quantized_state(s, run);
  if (!quantized.empty()) follow_keys(s, run);
  return with_quantized(s, run, quantized, wanted);
}

std::vector<SafetensorsTensor> adapter_tensors(Session& s, TrainingRun& run) {
  const NamedTensors copies = quantized_state(s, run);
  std::vector<SafetensorsTensor> tensors;
  // AdaLoRA's number of ranks is none of what is saved.
  for (const NamedParameter& p : named_parameters_of(run.model().module()))
    if (p.tensor().requires_grad() && !p.name.ends_with(".ranknum.default"))
      tensors.push_back(described(saved_name(p.name), p.tensor()));
  if (run.adapter() && targets_embeddings(*run.adapter()))
    add_embeddings(run.model().module(), tensors);
  return tensors;
}

void merge_and_unload(Session& s, TrainingRun& run) {
  run.loop().drop_optimizer_state();
  merge_adapters(s, run.model().module(), run.quantized());
  run.loop().drop_optimizer();
}

}  // namespace shardscope::eager
