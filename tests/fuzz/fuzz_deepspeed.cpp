// Any bytes as a DeepSpeed configuration: either an Error, or values whose batch sizes multiply;
// lint says something of every file and throws for none.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/config/deepspeed/accelerate_prepare.h"
#include "core/config/deepspeed/deepspeed_config.h"
#include "core/config/deepspeed/lint.h"
#include "core/config/values/config_json.h"
#include "core/config/values/python_arithmetic.h"

namespace {

using namespace shardscope;

constexpr std::int64_t world = 8;

void as_deepspeed(const std::string& text) {
  const auto read = [&](const std::string& path) -> std::optional<std::string> {
    if (path == "ds.json") return text;
    return std::nullopt;
  };
  const ConfigValue values = effective_deepspeed_config("ds.json", world, read).values;
  const ConfigValue product = multiplied(multiplied(values.at("train_micro_batch_size_per_gpu"),
                                                    values.at("gradient_accumulation_steps")),
                                         ConfigValue(world));
  if (!(product == values.at("train_batch_size"))) std::abort();
}

void as_accelerate(const std::string& text) {
  const auto none = [](const std::string&) { return std::nullopt; };
  const ConfigValue config = read_json(text, "ds.json");
  const Environment environment{{"ACCELERATE_MIXED_PRECISION", "bf16"}};
  DeepSpeedPlugin plugin =
      make_deepspeed_plugin(ConfigValue::dict({{"hf_ds_config", config}}), environment, none);
  ModelWidths model;
  model.hidden_size = 64;
  prepare_deepspeed(std::move(plugin), environment,
                    {.world = world, .loader_batch_sizes = {4}, .model = model});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto read : {as_deepspeed, as_accelerate}) {
    try {
      read(text);
    } catch (const Error&) {
    }
  }
  lint_deepspeed_config(text, "ds.json", {.world = world, .ranks_per_node = 4});
  return 0;
}
