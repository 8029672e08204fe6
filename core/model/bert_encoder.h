// The encoder that BERT and RoBERTa have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/model/config_reader.h"
#include "core/model/model.h"

namespace shardscope {

/// Where position_embeddings stands in the embeddings.
enum class PositionOrder : std::uint8_t { second, last };

struct BertConfig {
  std::string_view class_prefix;  ///< "Bert", "Roberta"
  PositionOrder position_order = PositionOrder::second;
  std::int64_t vocabulary = 0, positions = 0, token_types = 0;
  std::int64_t width = 0, heads = 0, layers = 0, inner = 0;
  std::string activation;
  double epsilon = 0, deviation = 0, dropout = 0;
  bool cross_attention = false, tied = false;
  std::string_view self_attention;  ///< class without prefix: "SdpaSelfAttention"
  std::string_view cross_attention_class;
  bool relative_positions = false;  ///< transformers 4: a distance embedding per layer
};

/// Source: transformers 5.23 and 4.57.6, models/bert/configuration_bert.py.
BertConfig read_bert_config(const ConfigReader& config, std::string_view class_prefix);

/// Adds the parts to `model` in the order in which the library registers them. Source: transformers
/// 5.23 and 4.57.6, models/bert/modeling_bert.py and models/roberta/modeling_roberta.py.
class BertBuilder {
 public:
  BertBuilder(const BertConfig& config, Model& model) : c_(config), model_(model) {}

  /// BertModel under `prefix`; the root itself where that is empty.
  void build_base(const std::string& prefix, bool pooler);
  void linear(const std::string& name, std::int64_t in, std::int64_t out);
  void norm(const std::string& name);
  void dropout(const std::string& name);
  /// A Linear over the vocabulary, tied to the word embedding and to `bias` where the config ties.
  /// Transformers 4 ties the bias in any case.
  void build_decoder(const std::string& name, const std::string& bias);

 private:
  std::string class_name(std::string_view name) const;
  void build_embeddings(const std::string& name);
  void build_layer(const std::string& name);
  void build_attention(const std::string& name, std::string_view class_name, bool relative);
  void build_output(const std::string& name, std::string_view class_name, std::int64_t in);
  void embedding(const std::string& name, std::int64_t rows);

  const BertConfig& c_;
  Model& model_;
  std::string word_embedding_;
};

}  // namespace shardscope
