// RoBERTa. Source: transformers 5.23 and 4.57.6, models/roberta/modeling_roberta.py and
// configuration_roberta.py.
#include <cstdint>

#include "core/model/bert_heads.h"
#include "core/model/family.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

constexpr Initialization zeros{.kind = Initialization::Kind::zeros, .standard_deviation = 0};

void build_language_head(const ConfigReader&, const BertConfig& roberta, BertBuilder& builder,
                         Model& model) {
  const std::string name = "lm_head";
  add_module(model, name, "RobertaLMHead");
  add_parameter(model, name + ".bias", {roberta.vocabulary}, zeros);
  builder.linear(name + ".dense", roberta.width, roberta.width);
  builder.norm(name + ".layer_norm");
  builder.build_decoder(name + ".decoder", name + ".bias");
}

void build_sequence_classifier(const ConfigReader& config, const BertConfig& roberta,
                               BertBuilder& builder, Model& model) {
  add_module(model, "classifier", "RobertaClassificationHead");
  builder.linear("classifier.dense", roberta.width, roberta.width);
  builder.dropout("classifier.dropout");
  builder.linear("classifier.out_proj", roberta.width, config.labels());
}

constexpr BertHead heads[] = {
    {"RobertaModel", true, build_no_head},
    {"RobertaForCausalLM", false, build_language_head},
    {"RobertaForMaskedLM", false, build_language_head},
    {"RobertaForMultipleChoice", true, build_choice},
    {"RobertaForQuestionAnswering", false, build_questions},
    {"RobertaForSequenceClassification", false, build_sequence_classifier},
    {"RobertaForTokenClassification", false, build_classifier},
};

/// Transformers 5 collects the base model's list for every head; in 4 the heads have another one,
/// which names no layer.
void set_no_split_classes(Model& model, bool is_base) {
  const std::vector<std::string> of_base{"RobertaEmbeddings", "RobertaLayer"};
  const std::vector<std::string> of_heads_4{"RobertaEmbeddings", "RobertaSdpaSelfAttention",
                                            "RobertaSelfAttention"};
  const bool v4 = model.transformers == TransformersVersion::v4;
  model.no_split_classes = v4 && !is_base ? of_heads_4 : of_base;
  if (is_base || v4) model.no_split_classes_of_class = model.no_split_classes;
}

/// The first token has the row behind the padding's: create_position_ids_from_input_ids.
std::int64_t positions_behind_padding(const ConfigReader& config, std::int64_t rows) {
  const auto padding = config.find("pad_token_id");
  const std::int64_t row = padding && padding->is_integer() ? padding->integer() : -1;
  return row >= 0 && row < rows - 1 ? rows - row - 1 : rows;
}

void build_roberta(const ConfigReader& config, Model& model) {
  BertConfig roberta = read_bert_config(config, "Roberta");
  if (model.transformers == TransformersVersion::v5) roberta.position_order = PositionOrder::last;
  model.base_model_prefix = "roberta";
  model.positions = positions_behind_padding(config, roberta.positions);
  model.dropout = roberta.dropout;
  model.why_no_decoder = "model_type roberta: attention to both sides, norms after the residual";
  add_module(model, "", model.class_name);
  BertBuilder builder(roberta, model);
  for (const BertHead& head : heads) {
    if (head.class_name != model.class_name) continue;
    const bool is_base = head.build == build_no_head;
    set_no_split_classes(model, is_base);
    builder.build_base(is_base ? "" : "roberta", head.pooler);
    head.build(config, roberta, builder, model);
  }
}

/// Source: transformers 5.23, configuration_roberta.py, class RobertaConfig.
constexpr std::string_view default_config = R"({
  "add_cross_attention": false, "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "classifier_dropout": null,
  "eos_token_id": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
  "intermediate_size": 3072, "is_decoder": false, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
  "model_type": "roberta", "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 1,
  "tie_word_embeddings": true, "type_vocab_size": 2, "use_cache": true, "vocab_size": 50265})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "classifier_dropout": null, "eos_token_id": 2,
  "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
  "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "roberta",
  "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 1, "position_embedding_type": "absolute",
  "type_vocab_size": 2, "use_cache": true, "vocab_size": 50265})";

}  // namespace

ModelFamily roberta_family() {
  ModelFamily family{.model_type = "roberta",
                     .default_class = "RobertaForMaskedLM",
                     .classes = {},
                     .generating_classes = {"RobertaForCausalLM"},
                     .default_config = default_config,
                     .default_config_4 = default_config_4,
                     .config_aliases = {},
                     .build = build_roberta};
  for (const BertHead& head : heads) family.classes.push_back(head.class_name);
  return family;
}

}  // namespace shardscope
