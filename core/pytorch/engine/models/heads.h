// What classes put on their base model: heads and losses. Source: transformers 5.23,
// modeling_layers.py and loss/loss_utils.py.
#pragma once

#include "core/pytorch/engine/models/context.h"

namespace shardscope::eager {

/// ForCausalLMLoss.
Tensor causal_language_loss(Session& s, Tensor logits, const Tensor& labels);
/// What XForSequenceClassification does with one label a sequence, by its problem_type.
Tensor classification_loss(Session& s, const Tensor& logits, const Tensor& labels);

/// XForCausalLM: the base model under base_model_prefix, lm_head, soft-capped logits where the
/// config says so.
Module::Forward causal_language_forward(const Context& context, const Module& module);

/// XForSequenceClassification of decoders, with one label a sequence: the logits of the last token
/// that is no padding. GPT-2 and the families after it write out the loss, those of
/// GenericForSequenceClassification call ForSequenceClassificationLoss.
Module::Forward sequence_classification_forward(const Context& context, const Module& module);
/// BLOOM's does not flatten what the loss takes.
Module::Forward unflattened_classification_forward(const Context& context, const Module& module);
Module::Forward generic_classification_forward(const Context& context, const Module& module);

/// XForTokenClassification: a dropout and a linear layer, the last child. BERT's, GPT-2's and
/// BLOOM's call a module for their loss, the others ForTokenClassification.
Module::Forward token_classification_forward(const Context& context, const Module& module);
Module::Forward generic_token_forward(const Context& context, const Module& module);

/// The arguments of a root.
struct RootArguments {
  const Tensor &input_ids, &attention_mask, &labels;
  explicit RootArguments(const Arguments& arguments);
};
/// {loss, logits} and what the base model's output object still holds.
Tensors root_outputs(Tensor loss, Tensor logits, const Tensors& base_outputs);

}  // namespace shardscope::eager
