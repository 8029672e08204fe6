#include "core/pytorch/runtimes/fsdp1/meta_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/refusal.h"

namespace shardscope::eager::fsdp1 {
namespace {

/// Modules of torch.nn that language models have, and that know reset_parameters().
constexpr std::array<std::string_view, 6> resettable{"Conv1d",    "Conv2d", "Embedding",
                                                     "LayerNorm", "Linear", "RMSNorm"};

bool is_on_meta(const std::vector<Module::NamedTensor>& own) {
  return std::any_of(own.begin(), own.end(), [](const Module::NamedTensor& each) {
    return each.tensor.defined() && each.tensor.device() == Device::meta;
  });
}

}  // namespace

void check_meta_modules(Module& root) {
  for (const Module* module : modules_of(root)) {
    if (!is_on_meta(module->parameters) && !is_on_meta(module->buffers)) continue;
    if (std::find(resettable.begin(), resettable.end(), module->class_name) != resettable.end())
      continue;
    throw Refusal("AttributeError",
                  {.where = module->name,
                   .what = fmt::format("{} object has no attribute 'reset_parameters', which FSDP1 "
                                       "calls on a module made on the meta device",
                                       module->class_name),
                   .way_out = "make the model on the device, or use FSDP2"});
  }
}

}  // namespace shardscope::eager::fsdp1
