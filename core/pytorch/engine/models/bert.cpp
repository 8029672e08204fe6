// BERT's forwards, RoBERTa's where they are the same. Source: transformers 5.23,
// models/bert/modeling_bert.py.
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/layers.h"
#include "core/pytorch/engine/models/masks.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// {input ids}.
Module::Forward embeddings(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const std::int64_t batch = arguments[0].size(0), tokens = arguments[0].size(1);
    const Tensor positions = indexed_slice(s, module.buffer("position_ids"), 1, 0, tokens);
    Tensor buffered = gather(s, expand(s, module.buffer("token_type_ids"), {1, -1}), 1, positions);
    Tensor types = expand(s, buffered, {batch, tokens});
    Tensor words = call_one(s, module.child("word_embeddings"), {arguments[0]});
    Tensor type_embeddings = call_one(s, module.child("token_type_embeddings"), {types});
    Tensor sum = add(s, words, type_embeddings);
    Tensor position_embeddings = call_one(s, module.child("position_embeddings"), {positions});
    const LetGo let_go{types, words, buffered, type_embeddings, position_embeddings};
    sum = add(s, sum, position_embeddings);
    sum = call_one(s, module.child("LayerNorm"), {sum});
    return {call_one(s, module.child("dropout"), {sum})};
  };
}

/// {hidden states, mask}.
Module::Forward self_attention(const Context& context, const Module&) {
  const std::int64_t head_size =
      context->config.integer("hidden_size") / context->config.integer("num_attention_heads");
  const double dropout = context->config.number("attention_probs_dropout_prob");
  const bool causal = context->config.flag("is_decoder");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    const auto projected = [&](const char* name) {
      return transpose(s,
                       view(s, call_one(s, module.child(name), {hidden}),
                            {hidden.size(0), hidden.size(1), -1, head_size}),
                       1, 2);
    };
    Tensor query = projected("query");
    Tensor key = projected("key");
    Tensor value = projected("value");
    const LetGo let_go{query, key, value};
    AttentionResult result = attend(s, context,
                                    {.query = query,
                                     .key = key,
                                     .value = value,
                                     .mask = arguments[1],
                                     .dropout = module.training ? dropout : 0,
                                     .causal = causal,
                                     .softmax_in_float32 = false});
    Tensor output = contiguous(s, reshape(s, result.output, {hidden.size(0), hidden.size(1), -1}));
    return {std::move(output), std::move(result.weights)};
  };
}

/// {hidden states, input}: BertSelfOutput and BertOutput.
Module::Forward output(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("dense"), {arguments[0]});
    hidden = call_one(s, module.child("dropout"), {hidden});
    hidden = call_one(s, module.child("LayerNorm"), {add(s, hidden, arguments[1])});
    return {std::move(hidden)};
  };
}

/// {hidden states, mask}.
Module::Forward attention(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensors attended = call(s, module.child("self"), {{arguments[0], arguments[1]}, 1});
    attended[0] = call_one(s, module.child("output"), {attended[0], arguments[0]});
    return attended;
  };
}

Module::Forward intermediate(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("dense"), {arguments[0]});
    return {call_one(s, module.child("intermediate_act_fn"), {hidden})};
  };
}

/// {hidden states, mask}.
Module::Forward layer(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensors attended = call(s, module.child("attention"), {arguments[0], arguments[1]});
    const Tensor inner = call_one(s, module.child("intermediate"), {attended[0]});
    return {call_one(s, module.child("output"), {inner, attended[0]})};
  };
}

/// {hidden states, mask}.
Module::Forward encoder(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = arguments[0];
    for (const Module::Child& layer : module.child("layer").children)
      hidden = call_one(s, *layer.module, {hidden, arguments[1]});
    return {std::move(hidden)};
  };
}

Module::Forward pooler(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor first = select(s, arguments[0], 1, 0);
    Tensor pooled = call_one(s, module.child("dense"), {first});
    pooled = call_one(s, module.child("activation"), {pooled});
    return {std::move(pooled)};
  };
}

/// {input ids, attention mask} to {hidden states, pooled or None}.
Module::Forward base(const Context& context, const Module&) {
  return [context](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor embedded = call_one(s, module.child("embeddings"), {arguments[0]});
    const MaskRequest request{
        .embeddings = embedded, .attention_mask = arguments[1], .position_ids = {}};
    const Tensor mask = context->config.flag("is_decoder")
                            ? create_causal_mask(s, context, request)
                            : create_bidirectional_mask(s, context, request);
    Tensor hidden = call_one(s, module.child("encoder"), {{embedded, mask}, 1});
    Tensor pooled;
    if (has_child(module, "pooler")) pooled = call_one(s, module.child("pooler"), {hidden});
    return {std::move(hidden), std::move(pooled)};
  };
}

Module::Forward transform(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("dense"), {arguments[0]});
    hidden = call_one(s, module.child("transform_act_fn"), {hidden});
    hidden = call_one(s, module.child("LayerNorm"), {hidden});
    return {std::move(hidden)};
  };
}

Module::Forward prediction_head(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("transform"), {arguments[0]});
    hidden = call_one(s, module.child("decoder"), {hidden});
    return {std::move(hidden)};
  };
}

Module::Forward masked_language_head(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    return {call_one(s, module.child("predictions"), {arguments[0]})};
  };
}

/// The base model and its head.
Module::Forward masked_language_model(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const RootArguments given(arguments);
    const Tensors base =
        call(s, *module.children.front().module, {{given.input_ids, given.attention_mask}, 1});
    Tensor scores = call_one(s, *module.children.back().module, {base[0]});
    Tensor loss;
    if (given.labels) {
      Tensor flat = view(s, scores, {-1, scores.size(-1)});
      Tensor labels = view(s, given.labels, {-1});
      loss = call_loss_module(s, LossModule::cross_entropy, flat, labels);
    }
    return root_outputs(std::move(loss), std::move(scores), base);
  };
}

Module::Forward sequence_classifier(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const RootArguments given(arguments);
    const Tensors base =
        call(s, module.child("bert"), {{given.input_ids, given.attention_mask}, 1});
    Tensor pooled = call_one(s, module.child("dropout"), {base[1]});
    Tensor logits = call_one(s, module.child("classifier"), {pooled});
    Tensor loss;
    if (given.labels) loss = classification_loss(s, logits, given.labels);
    return root_outputs(std::move(loss), std::move(logits), base);
  };
}

constexpr ClassForward table[] = {
    {"BertAttention", attention},
    {"BertEmbeddings", embeddings},
    {"BertEncoder", encoder},
    {"BertForMaskedLM", masked_language_model},
    {"BertForSequenceClassification", sequence_classifier},
    {"BertForTokenClassification", token_classification_forward},
    {"BertIntermediate", intermediate},
    {"BertLMPredictionHead", prediction_head},
    {"BertLayer", layer},
    {"BertModel", base},
    {"BertOnlyMLMHead", masked_language_head},
    {"BertOutput", output},
    {"BertPooler", pooler},
    {"BertPredictionHeadTransform", transform},
    {"BertSelfAttention", self_attention},
    {"BertSelfOutput", output},
    {"RobertaAttention", attention},
    {"RobertaEncoder", encoder},
    {"RobertaForMaskedLM", masked_language_model},
    {"RobertaForTokenClassification", token_classification_forward},
    {"RobertaIntermediate", intermediate},
    {"RobertaLayer", layer},
    {"RobertaModel", base},
    {"RobertaOutput", output},
    {"RobertaPooler", pooler},
    {"RobertaSelfAttention", self_attention},
    {"RobertaSelfOutput", output},
};

}  // namespace

std::span<const ClassForward> bert_forwards() { return table; }

}  // namespace shardscope::eager
