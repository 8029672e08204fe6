#include "core/pytorch/runtimes/training/phases.h"

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

Tensor evaluate(Session& s, TrainingRun& run) {
  const TrainingSettings& settings = run.loop().settings();
  const NoGrad no_grad(s);
  std::optional<Autocast> autocast;
  if (settings.autocast) autocast.emplace(s, *settings.autocast);
  return run.loop().evaluated();
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

/// QuantState.as_dict: state2.code is cloned, so that safetensors meets no shared tensor. Source:
/// bitsandbytes 0.50.2 functional.py.
Tensors copied_tables(Session& s, const TrainingRun& run) {
  Tensors copies;
  const NoGrad no_grad(s);
  for (const QuantizedLayers::Entry& entry : run.quantized().entries())
    for (const auto& [name, tensor] : entry.layer->state())
      if (name == "state2.code") copies.push_back(clone(s, tensor));
  return copies;
}

}  // namespace

std::vector<SafetensorsTensor> adapter_tensors(Session& s, TrainingRun& run) {
  const Tensors copies = copied_tables(s, run);
  std::vector<SafetensorsTensor> tensors;
  for (const NamedParameter& p : named_parameters_of(run.model().module())) {
    if (!p.tensor().requires_grad()) continue;
    SafetensorsTensor& added = tensors.emplace_back();
    added.name = saved_name(p.name);
    added.dtype = p.tensor().dtype();
    added.shape = {p.tensor().sizes().begin(), p.tensor().sizes().end()};
  }
  return tensors;
}

void merge_and_unload(Session& s, TrainingRun& run) {
  run.loop().drop_optimizer_state();
  merge_adapters(s, run.model().module(), run.quantized());
  run.loop().drop_optimizer();
}

}  // namespace shardscope::eager
