// Any bytes as a config.json: either an Error, or a model whose parameters can be counted and found
// by name.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "core/format/json_reader.h"
#include "core/model/huggingface.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const shardscope::Model model =
        shardscope::model_of_config(shardscope::JsonValue::parse(text, "config.json"));
    if (model.parameter_elements() < model.trainable_elements()) std::abort();
    if (!model.parameters.empty() && !model.find(model.parameters.back().name).valid())
      std::abort();
  } catch (const shardscope::Error&) {
  }
  return 0;
}
