// BERT. Source: transformers 5.23 and 4.57.6, models/bert/modeling_bert.py and
// configuration_bert.py.
#include <cstdint>

#include "core/model/bert_heads.h"
#include "core/model/family.h"
#include "core/model/modules.h"

namespace shardscope {
namespace {

constexpr Initialization zeros{.kind = Initialization::Kind::zeros, .standard_deviation = 0};

void build_predictions(const BertConfig& bert, BertBuilder& builder, Model& model) {
  const std::string name = "cls.predictions";
  add_module(model, name, "BertLMPredictionHead");
  add_parameter(model, name + ".bias", {bert.vocabulary}, zeros);
  add_module(model, name + ".transform", "BertPredictionHeadTransform");
  builder.linear(name + ".transform.dense", bert.width, bert.width);
  add_module(model, name + ".transform.transform_act_fn", activation_class(bert.activation));
  builder.norm(name + ".transform.LayerNorm");
  builder.build_decoder(name + ".decoder", name + ".bias");
}

void build_masked(const ConfigReader&, const BertConfig& bert, BertBuilder& builder, Model& model) {
  add_module(model, "cls", "BertOnlyMLMHead");
  build_predictions(bert, builder, model);
}

void build_next_sentence(const ConfigReader&, const BertConfig& bert, BertBuilder& builder,
                         Model& model) {
  add_module(model, "cls", "BertOnlyNSPHead");
  builder.linear("cls.seq_relationship", bert.width, 2);
}

void build_pretraining(const ConfigReader&, const BertConfig& bert, BertBuilder& builder,
                       Model& model) {
  add_module(model, "cls", "BertPreTrainingHeads");
  build_predictions(bert, builder, model);
  builder.linear("cls.seq_relationship", bert.width, 2);
}

constexpr BertHead heads[] = {
    {"BertModel", true, build_no_head},
    {"BertForMaskedLM", false, build_masked},
    {"BertForMultipleChoice", true, build_choice},
    {"BertForNextSentencePrediction", true, build_next_sentence},
    {"BertForPreTraining", true, build_pretraining},
    {"BertForQuestionAnswering", false, build_questions},
    {"BertForSequenceClassification", true, build_classifier},
    {"BertForTokenClassification", false, build_classifier},
    {"BertLMHeadModel", false, build_masked},
};

/// Only the base model's class has the list; transformers 5 collects it from the parts.
void set_no_split_classes(Model& model, bool is_base) {
  const std::vector<std::string> classes{"BertEmbeddings", "BertLayer"};
  if (is_base) model.no_split_classes_of_class = classes;
  if (is_base || model.transformers == TransformersVersion::v5) model.no_split_classes = classes;
}

void build_bert(const ConfigReader& config, Model& model) {
  const BertConfig bert = read_bert_config(config, "Bert");
  model.base_model_prefix = "bert";
  model.positions = bert.positions;
  model.dropout = bert.dropout;
  model.why_no_decoder = "model_type bert: attention to both sides, norms after the residual";
  add_module(model, "", model.class_name);
  BertBuilder builder(bert, model);
  for (const BertHead& head : heads) {
    if (head.class_name != model.class_name) continue;
    const bool is_base = head.build == build_no_head;
    set_no_split_classes(model, is_base);
    builder.build_base(is_base ? "" : "bert", head.pooler);
    head.build(config, bert, builder, model);
  }
}

/// Source: transformers 5.23, configuration_bert.py, class BertConfig.
constexpr std::string_view default_config = R"({
  "add_cross_attention": false, "attention_probs_dropout_prob": 0.1, "bos_token_id": null, "classifier_dropout": null,
  "eos_token_id": null, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
  "initializer_range": 0.02, "intermediate_size": 3072, "is_decoder": false, "layer_norm_eps": 1e-12,
  "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12,
  "pad_token_id": 0, "tie_word_embeddings": true, "type_vocab_size": 2, "use_cache": true, "vocab_size": 30522})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_probs_dropout_prob": 0.1, "classifier_dropout": null, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
  "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
  "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12,
  "pad_token_id": 0, "position_embedding_type": "absolute", "type_vocab_size": 2, "use_cache": true,
  "vocab_size": 30522})";

}  // namespace

ModelFamily bert_family() {
  ModelFamily family{.model_type = "bert",
                     .default_class = "BertForMaskedLM",
                     .classes = {},
                     .generating_classes = {"BertLMHeadModel"},
                     .default_config = default_config,
                     .default_config_4 = default_config_4,
                     .config_aliases = {},
                     .build = build_bert};
  for (const BertHead& head : heads) family.classes.push_back(head.class_name);
  return family;
}

}  // namespace shardscope
