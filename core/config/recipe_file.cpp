#include "core/config/recipe_file.h"

#include <fmt/format.h>

#include <optional>

namespace shardscope {
namespace {

std::optional<RecipeTool> tool_of(ConfigKind kind) {
  switch (kind) {
    case ConfigKind::trl:
      return RecipeTool::trl;
    case ConfigKind::axolotl:
      return RecipeTool::axolotl;
    case ConfigKind::llama_factory:
      return RecipeTool::llama_factory;
    case ConfigKind::torchtune:
      return RecipeTool::torchtune;
    case ConfigKind::litgpt:
      return RecipeTool::litgpt;
    case ConfigKind::ms_swift:
      return RecipeTool::ms_swift;
    case ConfigKind::torchtitan:
      return RecipeTool::torchtitan;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool is_recipe(ConfigKind kind) { return tool_of(kind).has_value(); }

Error not_a_recipe(const ConfigFile& file) {
  if (file.kind == ConfigKind::megatron)
    return Error({.where = file.name(),
                  .what = "is a command line of Megatron-LM, which only some verbs take",
                  .way_out = "give it to `simulate --config`, `plan --config` or `lint`"});
  return Error(
      {.where = file.name(),
       .what = fmt::format("is no file of a fine-tuning tool but of {}", name_of(file.kind)),
       .way_out = "give a file of LLaMA-Factory, TRL, axolotl, ms-swift, litgpt, torchtune or "
                  "torchtitan"});
}

RecipeTool recipe_tool_of(const ConfigFile& file) {
  if (const auto tool = tool_of(file.kind)) return *tool;
  throw not_a_recipe(file);
}

Recipe read_recipe(const ConfigFile& file) {
  return read_recipe(recipe_tool_of(file), file.text, file.name());
}

}  // namespace shardscope
