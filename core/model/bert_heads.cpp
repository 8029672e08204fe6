#include "core/model/bert_heads.h"

namespace shardscope {

void build_no_head(const ConfigReader&, const BertConfig&, BertBuilder&, Model&) {}

void build_classifier(const ConfigReader& config, const BertConfig& bert, BertBuilder& builder,
                      Model&) {
  builder.dropout("dropout");
  builder.linear("classifier", bert.width, config.labels());
}

void build_choice(const ConfigReader&, const BertConfig& bert, BertBuilder& builder, Model&) {
  builder.dropout("dropout");
  builder.linear("classifier", bert.width, 1);
}

void build_questions(const ConfigReader& config, const BertConfig& bert, BertBuilder& builder,
                     Model&) {
  builder.linear("qa_outputs", bert.width, config.labels());
}

}  // namespace shardscope
