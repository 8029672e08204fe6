#include "core/pytorch/plans/transformers_facts.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace shardscope {
namespace {

/// A class that overrides a getter, and what it returns.
struct Override {
  std::string_view class_name, path;
};

constexpr std::array input_overrides{
    Override{"BertModel", "embeddings.word_embeddings"},
    Override{"BloomModel", "word_embeddings"},
    Override{"GPT2Model", "wte"},
    Override{"GPTJModel", "wte"},
    Override{"GPTNeoXModel", "embed_in"},
    Override{"OPTModel", "decoder.embed_tokens"},
    Override{"RobertaModel", "embeddings.word_embeddings"},
    Override{"T5EncoderModel", "shared"},
    Override{"T5ForConditionalGeneration", "shared"},
    Override{"T5ForQuestionAnswering", "shared"},
    Override{"T5Model", "shared"},
};

constexpr std::array output_overrides{
    Override{"BertForMaskedLM", "cls.predictions.decoder"},
    Override{"BertForPreTraining", "cls.predictions.decoder"},
    Override{"BertLMHeadModel", "cls.predictions.decoder"},
    // Transformers 4; 5 calls it lm_head.
    Override{"GPTNeoXForCausalLM", "embed_out"},
    Override{"RobertaForCausalLM", "lm_head.decoder"},
    Override{"RobertaForMaskedLM", "lm_head.decoder"},
};

template <std::size_t N>
std::optional<std::int32_t> overridden(const std::array<Override, N>& overrides,
                                       const ModuleTree& tree, std::int32_t module) {
  const std::string& name = tree.modules[static_cast<std::size_t>(module)].class_name;
  for (const Override& row : overrides)
    if (row.class_name == name) return find_module(tree, module, std::string(row.path));
  return std::nullopt;
}

/// EmbeddingAccessMixin.get_input_embeddings, for text models.
std::optional<std::int32_t> input_embeddings(const ModuleTree& tree, std::int32_t module,
                                             const std::string& base_model_prefix) {
  if (const auto found = overridden(input_overrides, tree, module)) return found;
  for (const char* path : {"embed_tokens", "embeddings.embed_tokens", "model.embed_tokens"})
    if (const auto found = find_module(tree, module, path)) return found;
  if (base_model_prefix.empty()) return std::nullopt;
  const auto base = find_module(tree, module, base_model_prefix);
  return base ? input_embeddings(tree, *base, {}) : std::nullopt;
}

/// PeftModel.base_model.model is the model itself.
constexpr const char* peft_path = "base_model.model";

/// PeftModel and LoraModel ask what is inside them for attributes that they lack. But LoraModel has
/// a `model`, the whole one.
std::string below_peft(const std::string& prefix) {
  if (prefix.empty()) return {};
  return prefix == "model" ? peft_path : std::string(peft_path) + "." + prefix;
}

}  // namespace

std::optional<std::int32_t> find_module(const ModuleTree& tree, std::int32_t module,
                                        const std::string& path) {
  const std::string& prefix = tree.modules[static_cast<std::size_t>(module)].name;
  const std::string name = prefix.empty() ? path : prefix + "." + path;
  const auto found =
      std::find_if(tree.modules.begin(), tree.modules.end(),
                   [&](const TreeModule& candidate) { return candidate.name == name; });
  if (found == tree.modules.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - tree.modules.begin());
}

bool is_adapted(const ModuleTree& tree) { return find_module(tree, 0, peft_path).has_value(); }

std::set<std::string> peft_units(const ModuleTree& tree, const std::vector<std::string>& classes) {
  const auto trains = [&](std::int32_t index) {
    const TreeParameter& parameter = tree.parameters[static_cast<std::size_t>(index)];
    return parameter.trainable && parameter.name.ends_with(".weight");
  };
  std::set<std::string> names;
  for (const TreeModule& module : tree.modules) {
    const bool layer =
        std::ranges::any_of(classes, [&](const std::string& name) { return module.is(name); });
    if (layer || (module.children.empty() && std::ranges::any_of(module.parameters, trains)))
      names.insert(module.name);
  }
  return names;
}

TransformersFacts transformers_facts(const Model& model, const ModuleTree& tree) {
  const std::string& prefix = model.base_model_prefix;
  const std::optional<std::int32_t> adapted = find_module(tree, 0, peft_path);
  const std::int32_t root = adapted.value_or(0);
  TransformersFacts facts{.base_model_prefix = adapted ? below_peft(prefix) : prefix,
                          .no_split_classes = model.no_split_classes,
                          .input_embeddings = input_embeddings(tree, root, prefix),
                          .output_embeddings = overridden(output_overrides, tree, root)};
  if (!facts.output_embeddings) facts.output_embeddings = find_module(tree, root, "lm_head");
  return facts;
}

}  // namespace shardscope
