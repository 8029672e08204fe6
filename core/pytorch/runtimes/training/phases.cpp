#include "core/pytorch/runtimes/training/phases.h"

#include <string>
#include <utility>

#include "core/pytorch/engine/adapters/merge.h"
#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/fsdp1/state_dict.h"
#include "core/pytorch/runtimes/fsdp2/state_dict.h"

namespace shardscope::eager {
namespace {

using Entries = std::vector<std::pair<std::string, Tensor>>;

void add_entries(Session& s, Module& module, const std::string& name, const FullStateDict& wanted,
                 Entries& entries) {
  const auto joined = [&](const std::string& own) { return name.empty() ? own : name + "." + own; };
  const auto add = [&](const Module::NamedTensor& own) {
    if (!own.tensor || (wanted.trainable_only && !own.tensor.requires_grad())) return;
    const NoGrad no_grad(s);
    entries.emplace_back(joined(own.name), wanted.cpu_offload
                                               ? to(s, own.tensor, {.device = Device::cpu})
                                               : own.tensor);
  };
  for (const Module::NamedTensor& own : module.parameters) add(own);
  for (const Module::NamedTensor& own : module.buffers)
    if (own.persistent) add(own);
  for (const Module::Child& child : module.children)
    add_entries(s, *child.module, joined(child.name), wanted, entries);
}

}  // namespace

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

Entries full_state_dict(Session& s, TrainingRun& run, const FullStateDict& wanted) {
  Entries entries;
  Module& root = run.model().module();
  if (fsdp2::FullySharded* sharded = run.model().fully_sharded()) {
    fsdp2::StateDict dict =
        fsdp2::get_model_state_dict(s, *sharded, root,
                                    {.full_state_dict = true,
                                     .cpu_offload = wanted.cpu_offload,
                                     .ignore_frozen_params = wanted.trainable_only});
    for (fsdp2::StateDict::Entry& entry : dict.entries)
      entries.emplace_back(entry.name, std::move(entry.tensor));
    return entries;
  }
  if (fsdp1::FullySharded* flattened = run.model().flattened()) {
    fsdp1::StateDict dict = fsdp1::state_dict(
        s, *flattened, {.rank0_only = wanted.cpu_offload, .offload_to_cpu = wanted.cpu_offload});
    for (fsdp1::StateEntry& entry : dict) entries.emplace_back(entry.name, std::move(entry.tensor));
    return entries;
  }
  add_entries(s, root, "", wanted, entries);
  return entries;
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

}  // namespace

namespace {

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
