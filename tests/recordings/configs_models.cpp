#include "tests/recordings/configs_models.h"

#include "core/base/error.h"
#include "core/model/huggingface.h"

namespace shardscope::recordings {
namespace {

struct TinyModel {
  const char* name;
  const char* class_name;
  const char* config;
};

constexpr TinyModel models[] = {
    {"bert", "BertForSequenceClassification",
     R"({"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "vocab_size": 96})"},
    {"gpt2", "GPT2LMHeadModel",
     R"({"model_type": "gpt2", "n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 96,
         "n_positions": 64})"},
    {"llama", "LlamaForCausalLM",
     R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 96})"},
    {"t5", "T5ForConditionalGeneration",
     R"({"model_type": "t5", "d_model": 40, "d_kv": 10, "d_ff": 80, "num_layers": 1,
         "num_decoder_layers": 2, "num_heads": 4, "vocab_size": 96})"},
    {"mixtral", "MixtralForCausalLM",
     R"({"model_type": "mixtral", "hidden_size": 32, "intermediate_size": 48,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 96, "num_local_experts": 4})"},
};

/// Sequential(Linear(16, 32), ReLU(), Linear(32, 4)).
accelerate::PreparedModel mlp() {
  accelerate::PreparedModel model;
  model.tree.parameters = {{.name = "0.weight", .shape = {32, 16}},
                           {.name = "0.bias", .shape = {32}},
                           {.name = "2.weight", .shape = {4, 32}},
                           {.name = "2.bias", .shape = {4}}};
  model.tree.modules = {{.name = "", .class_name = "Sequential", .children = {1, 2, 3}},
                        {.name = "0", .class_name = "Linear", .parameters = {0, 1}, .parent = 0},
                        {.name = "1", .class_name = "ReLU", .parent = 0},
                        {.name = "2", .class_name = "Linear", .parameters = {2, 3}, .parent = 0}};
  model.widths.has_config = false;
  return model;
}

}  // namespace

accelerate::PreparedModel tiny_model(const std::string& name) {
  if (name == "mlp") return mlp();
  for (const TinyModel& tiny : models) {
    if (tiny.name != name) continue;
    const JsonValue config = JsonValue::parse(tiny.config, name);
    const Model model = model_of_config(config, {.class_name = tiny.class_name});
    accelerate::PreparedModel result{.tree = tree_of(model)};
    result.facts = transformers_facts(model, result.tree);
    result.widths = widths_of_config(config);
    for (const TreeModule& module : result.tree.modules)
      result.widths.classes.push_back(module.class_name);
    return result;
  }
  throw Error({.where = {}, .what = "no small model is called " + name, .way_out = {}});
}

}  // namespace shardscope::recordings
