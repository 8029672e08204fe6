// The heads that BERT and RoBERTa have in common.
#pragma once

#include <string_view>

#include "core/model/bert_encoder.h"

namespace shardscope {

/// What a class has on its base model.
struct BertHead {
  std::string_view class_name;
  bool pooler;
  void (*build)(const ConfigReader& config, const BertConfig& bert, BertBuilder& builder,
                Model& model);
};

/// The base model itself.
void build_no_head(const ConfigReader& config, const BertConfig& bert, BertBuilder& builder,
                   Model& model);
/// Dropout and a Linear of as many outputs as there are labels.
void build_classifier(const ConfigReader& config, const BertConfig& bert, BertBuilder& builder,
                      Model& model);
/// ForMultipleChoice: dropout and one output.
void build_choice(const ConfigReader& config, const BertConfig& bert, BertBuilder& builder,
                  Model& model);
/// ForQuestionAnswering.
void build_questions(const ConfigReader& config, const BertConfig& bert, BertBuilder& builder,
                     Model& model);

}  // namespace shardscope
