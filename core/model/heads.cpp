#include "core/model/heads.h"

#include "core/model/modules.h"

namespace shardscope {

Linear add_language_head(Model& model, const LanguageHead& head, double standard_deviation) {
  const std::string name(head.name);
  if (!head.tied)
    return add_linear(model, name, {.in = head.width, .out = head.vocabulary, .bias = head.bias},
                      standard_deviation);
  add_module(model, name, "Linear");
  add_tied(model, name + ".weight", model.parameters[head.embedding.value].name);
  Linear linear{.module = name, .weight = head.embedding, .in = head.width, .out = head.vocabulary};
  if (head.bias) linear.bias = add_bias(model, name, head.vocabulary);
  return linear;
}

std::string_view task_of(const Model& model, std::string_view family) {
  const std::string_view name = model.class_name;
  return name.starts_with(family) ? name.substr(family.size()) : std::string_view();
}

void add_label_head(Model& model, const LabelHead& head, double standard_deviation) {
  if (head.dropout) add_module(model, "dropout", "Dropout");
  add_linear(model, std::string(head.name),
             {.in = head.width, .out = head.labels, .bias = head.bias}, standard_deviation);
}

bool add_common_head(const ConfigReader& config, std::string_view task, std::int64_t width,
                     double standard_deviation, Model& model) {
  LabelHead head{.width = width};
  if (task == "ForSequenceClassification") {
    head.labels = config.labels();
  } else if (task == "ForQuestionAnswering") {
    constexpr std::int64_t start_and_end = 2;
    head.name = "qa_outputs";
    head.labels = start_and_end;
    head.bias = true;
  } else {
    return false;
  }
  add_label_head(model, head, standard_deviation);
  return true;
}

std::string no_language_head(const Model& model) {
  return "class " + model.class_name + " has no head for the next token";
}

}  // namespace shardscope
