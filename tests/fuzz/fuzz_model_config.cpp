// Any bytes as a config.json, for both releases of transformers: either an Error, or a model whose
// parameters can be counted and found by name, and a config that can be written.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/format/json_reader.h"
#include "core/model/config_text.h"
#include "core/model/huggingface.h"

namespace {

void build_and_write(std::string_view text, shardscope::TransformersVersion version) {
  try {
    const auto config = shardscope::JsonValue::parse(text, "config.json");
    const shardscope::Model model = shardscope::model_of_config(config, {.transformers = version});
    if (model.parameter_elements() < model.trainable_elements()) std::abort();
    if (!model.parameters.empty() && !model.find(model.parameters.back().name).valid())
      std::abort();
    if (shardscope::config_text(config, model).empty()) std::abort();
  } catch (const shardscope::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  build_and_write(text, shardscope::TransformersVersion::v4);
  build_and_write(text, shardscope::TransformersVersion::v5);
  return 0;
}
