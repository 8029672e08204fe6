#include "tests/recordings/collectives_checkpoint.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/pytorch/engine/checkpoint.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;
using Wanted = std::function<bool(const eager::Module&)>;

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> parts_of(const std::vector<std::string>& blocks) {
  std::vector<std::string> parts;
  for (const std::string& block : blocks)
    for (const char* part : {".attn", ".mlp", ".self_attn"}) parts.push_back(block + part);
  return parts;
}

/// apply_activation_checkpointing: what lies inside first.
void wrap_children(eager::Module& module, const Wanted& wanted, const CheckpointOptions& options) {
  for (eager::Module::Child& child : module.children) {
    wrap_children(*child.module, wanted, options);
    if (wanted(*child.module)) child.module = checkpoint_wrapper(child.module, options);
  }
}

}  // namespace

void wrap_checkpoints(const Json& given, eager::Module& root,
                      const std::vector<std::string>& blocks,
                      bool (*is_unit)(const eager::Module&)) {
  if (!given.contains("activation_checkpoint")) return;
  std::string where = given.at("activation_checkpoint").get<std::string>();
  const CheckpointOptions options{.reentrant = where.ends_with("_reentrant")};
  where = where.substr(0, where.find("_reentrant"));
  std::vector<std::string> names = given.value("ac_blocks", blocks);
  if (where == "sub") names = parts_of(names);
  const auto modules = modules_of(root);
  if (where == "hf") {
    for (eager::Module* module : modules)
      if (is_among(blocks, module->name) && !is_unit(*module)) checkpoint_forward(*module, options);
    return;
  }
  const bool has_units = std::any_of(modules.begin(), modules.end(),
                                     [&](const eager::Module* m) { return is_unit(*m); });
  const bool around_units = where == "outside" && has_units;
  const bool anywhere = where == "sub";
  wrap_children(
      root,
      [&](const eager::Module& module) {
        return is_among(names, module.name) && (anywhere || is_unit(module) == around_units);
      },
      options);
}

}  // namespace shardscope::recordings
