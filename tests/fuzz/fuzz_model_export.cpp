// Any bytes as a JSON that describes a model: either an Error, or a model whose tree can be built
// and whose parameters can be counted and found under every name.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/model/read_model.h"
#include "core/pytorch/plans/module_tree.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const shardscope::Model model = shardscope::model_of_json(text, "model.json");
    if (model.parameter_elements() < model.trainable_elements()) std::abort();
    const auto names = model.parameter_names();
    if (names.size() != model.parameters.size() + model.tied.size()) std::abort();
    if (!names.empty() && !model.find(names.back().name).valid()) std::abort();
    const shardscope::ModuleTree tree = shardscope::tree_of(model);
    if (tree.modules.size() != model.modules.size()) std::abort();
    if (tree.parameters.size() != names.size()) std::abort();
  } catch (const shardscope::Error&) {
  }
  return 0;
}
