// The heads that transformers puts on its decoders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/model/config_reader.h"
#include "core/model/model.h"

namespace shardscope {

/// The head for the next token: a Linear of its own, or the token embedding again.
struct LanguageHead {
  std::string_view name = "lm_head";
  ParameterId embedding;
  bool tied = false;
  bool bias = false;
  std::int64_t width = 0;
  std::int64_t vocabulary = 0;
};
Linear add_language_head(Model& model, const LanguageHead& head, double standard_deviation);

/// What the model's class adds to the base model, by the end of its name: "ForCausalLM", "Model",
/// ...; `family` is its beginning. Empty if it does not begin so.
std::string_view task_of(const Model& model, std::string_view family);

/// A classification head of one Linear; with a Dropout before it where `dropout` is set.
struct LabelHead {
  std::string_view name = "score";
  std::int64_t width = 0;
  std::int64_t labels = 0;
  bool bias = false;
  bool dropout = false;
};
void add_label_head(Model& model, const LabelHead& head, double standard_deviation);

/// Heads that most decoders share: ForSequenceClassification and ForQuestionAnswering. Whether
/// `task` is one of them.
bool add_common_head(const ConfigReader& config, std::string_view task, std::int64_t width,
                     double standard_deviation, Model& model);

/// Why the native runtime cannot train a class without a head for the next token.
std::string no_language_head(const Model& model);

}  // namespace shardscope
