#include "core/pytorch/runtimes/training/float8_layers.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t divisor = 16;  // of sizes that torch._scaled_mm takes

bool divides(const Module& linear) {
  const auto weight = std::ranges::find(linear.parameters, "weight", &Module::NamedTensor::name);
  return weight->tensor.size(0) % divisor == 0 && weight->tensor.size(1) % divisor == 0;
}

/// named_modules() that are torch.nn.Linear.
std::vector<Module*> linear_layers(Module& root) {
  std::vector<Module*> layers = modules_of(root);
  std::erase_if(layers, [](const Module* module) { return module->class_name != "Linear"; });
  return layers;
}

}  // namespace

std::vector<Module*> float8_layers_of_accelerate(Module& root) {
  std::vector<Module*> layers = linear_layers(root);
  if (layers.size() < 3) return {};
  layers.erase(layers.begin());
  layers.pop_back();
  std::erase_if(layers, [](const Module* layer) { return !divides(*layer); });
  return layers;
}

std::vector<Module*> float8_layers_of_torchtitan(Module& root) {
  std::vector<Module*> layers = linear_layers(root);
  std::erase_if(layers, [](const Module* layer) { return layer->name == "output"; });
  return layers;
}

void check_float8_device(int compute_capability) {
  constexpr int first = 89;
  if (compute_capability >= first) return;
  throw Error({.where = "float8",
               .what = fmt::format("the GPU has compute capability {}.{}, and float8 needs 8.9",
                                   compute_capability / 10, compute_capability % 10),
               .way_out = "choose a GPU of Ada, Hopper or later, or bf16"});
}

Float8Layers::Float8Layers(const std::vector<Module*>& layers,
                           const parallel::Float8Settings& settings, const ProcessGroup* shards)
    : settings_(settings), axis_{.group = shards, .pending = &pending_} {
  if (layers.empty())
    throw Error({.where = "float8",
                 .what = "the model has no linear layer that float8 converts",
                 .way_out = "leave float8 out: the run is the same without it"});
  for (Module* module : layers) {
    layers_.push_back(std::make_unique<Layer>());
    Layer& layer = *layers_.back();
    layer.module = module;
    if (settings.fsdp_all_gather && shards != nullptr)
      layer.shard = std::make_unique<parallel::Float8Shard>(axis_);
    parallel::convert_to_float8(*module, settings, layer.shard.get(), layer.split);
  }
}

void Float8Layers::split(const Module& module, const parallel::Float8Split& split) {
  for (const auto& layer : layers_)
    if (layer->module == &module) layer->split = split;
}

fsdp2::GatherExtension Float8Layers::extension_of(const Tensor& parameter) const {
  for (const auto& layer : layers_)
    if (layer->shard && layer->module->parameter("weight").is(parameter))
      return {.before = [shard = layer->shard.get()](
                            Session& s, const Tensor& own) { return shard->cast(s, own); },
              .after = [shard = layer->shard.get()] { shard->copied_out(); }};
  return {};
}

void Float8Layers::precompute_scales(Session& s) {
  if (!settings_.precompute_scale) return;
  Tensors shards;
  std::vector<parallel::Float8Shard*> targets;
  std::vector<parallel::MeshAxisContext> axes{axis_};
  for (const auto& layer : layers_) {
    if (!layer->shard) continue;
    shards.push_back(layer->module->parameter("weight"));
    targets.push_back(layer->shard.get());
    if (layer->split.axis.group && axes.size() == 1) axes.push_back(layer->split.axis);
  }
  parallel::precompute_scales(s, axes, shards, targets);
}

}  // namespace shardscope::eager
