// Any bytes as the file of each fine-tuning tool, and as a script: either an Error, or a recipe
// whose arguments are a dict or none; lint throws for none.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/config/lint.h"
#include "core/config/recipe_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardscope;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const ConfigKind kind :
       {ConfigKind::trl, ConfigKind::axolotl, ConfigKind::llama_factory, ConfigKind::torchtune,
        ConfigKind::litgpt, ConfigKind::ms_swift, ConfigKind::torchtitan})
    for (const char* name : {"run.yaml", "run.sh", "run.toml", "run.py"}) {
      const ConfigFile file{.path = name, .kind = kind, .text = text};
      try {
        const Recipe recipe = read_recipe(file);
        if (!recipe.training_arguments.is_dict() && !recipe.own_loop) std::abort();
        if (!recipe.adapter.is_null() && !recipe.adapter.is_dict()) std::abort();
      } catch (const Error&) {
      }
      lint(file, {});
    }
  return 0;
}
