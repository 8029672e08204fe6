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
  for (Module* layer : layers) {
    const parallel::Float8Shard* shard = nullptr;
    if (settings.fsdp_all_gather && shards != nullptr) {
      weights_.push_back({.module = layer,
                          .made = layer->parameter("weight").impl(),
                          .shard = std::make_unique<parallel::Float8Shard>(axis_)});
      shard = weights_.back().shard.get();
    }
    parallel::convert_to_float8(*layer, settings, shard);
  }
}

fsdp2::GatherExtension Float8Layers::extension_of(const Tensor& parameter) const {
  for (const CastWeight& weight : weights_)
    if (weight.made == parameter.impl())
      return {.before = [shard = weight.shard.get()](
                            Session& s, const Tensor& own) { return shard->cast(s, own); },
              .after = [shard = weight.shard.get()] { shard->copied_out(); }};
  return {};
}

void Float8Layers::precompute_scales(Session& s) {
  if (!settings_.precompute_scale) return;
  Tensors shards;
  std::vector<parallel::Float8Shard*> targets;
  for (const CastWeight& weight : weights_) {
    shards.push_back(weight.module->parameter("weight"));
    targets.push_back(weight.shard.get());
  }
  parallel::precompute_scales(s, axis_, shards, targets);
}

}  // namespace shardscope::eager
