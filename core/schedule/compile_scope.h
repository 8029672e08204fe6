// What torch.compile makes one graph of.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardscope {

enum class CompileScope : std::uint8_t {
  none,
  blocks,           ///< each block of the model by itself
  blocks_and_loss,  ///< and the loss after the model: torchtitan, torchtune
  /// The model and its loss as one graph: model.compile(), the Trainer.
  model,
  /// As graphs that are not known: transformers logs before the loss where the class's name does
  /// not say what the loss is (GPT2LMHeadModel), and that breaks the graph.
  model_in_parts
};

/// As --compile takes it: "blocks+loss"; "" of none; "model" of a model in parts, too.
constexpr std::string_view name_of(CompileScope scope) {
  switch (scope) {
    case CompileScope::none:
      return "";
    case CompileScope::blocks:
      return "blocks";
    case CompileScope::blocks_and_loss:
      return "blocks+loss";
    default:
      return "model";
  }
}

/// The scope as a class of transformers has it: `model` becomes `model_in_parts` where its name
/// names no loss ("...ForCausalLM" does). Source: transformers 5.24 modeling_utils.py, loss_type.
inline CompileScope scope_for_class(CompileScope scope, std::string_view class_name) {
  const bool names_no_loss =
      !class_name.empty() && class_name.find("For") == std::string_view::npos;
  return scope == CompileScope::model && names_no_loss ? CompileScope::model_in_parts : scope;
}

}  // namespace shardscope
