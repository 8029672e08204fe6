// Any bytes as TrainingArguments: either an Error, or arguments whose plugin can be asked for; lint
// throws for none.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/config/accelerate/fsdp_plugin_arguments.h"
#include "core/config/trainer/training_args.h"
#include "core/config/trainer/training_args_lint.h"
#include "core/config/values/config_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardscope;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto none = [](const std::string&) { return std::nullopt; };
  try {
    const ConfigValue given = read_json(text, "args.json");
    if (given.is_dict()) {
      const TrainingArguments arguments = make_training_arguments(given, {}, none, 4);
      // FSDP that is on has a normalized configuration.
      if (arguments.fsdp.truthy() && !arguments.fsdp_config.has("min_num_params")) std::abort();
      if (!arguments.fsdp_plugin_args.is_null())
        accelerate::make_fsdp_plugin(arguments.fsdp_plugin_args, arguments.environment);
    }
  } catch (const Error&) {
  }
  lint_training_arguments(text, "args.json", {.read_file = none});
  lint_fsdp_config(text, "fsdp.json", {.model_classes = {"LlamaDecoderLayer"}});
  return 0;
}
