// What RoBERTa does otherwise than BERT. Source: transformers 5.23,
// models/roberta/modeling_roberta.py.
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/layers.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// create_position_ids_from_input_ids.
Tensor counted_positions(Session& s, const Tensor& input_ids, std::int64_t padding) {
  const Tensor mask = to(s, compare(s, Comparison::ne, input_ids, padding), Dtype::int32);
  const Tensor counted = mul(s, add(s, type_as(s, cumsum(s, mask, 1), mask), 0), mask);
  return add(s, to(s, counted, Dtype::int64), padding);
}

/// {input ids}.
Module::Forward embeddings(const Context& context, const Module&) {
  const std::int64_t padding = context->config.integer("pad_token_id");
  return [padding](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const std::int64_t batch = arguments[0].size(0), tokens = arguments[0].size(1);
    const Tensor positions = counted_positions(s, arguments[0], padding);
    Tensor buffered = expand(s, module.buffer("token_type_ids"), {batch, -1});
    buffered = gather(s, buffered, 1, positions);
    const Tensor types = expand(s, buffered, {batch, tokens});
    const Tensor words = call_one(s, module.child("word_embeddings"), {arguments[0]});
    const Tensor type_embeddings = call_one(s, module.child("token_type_embeddings"), {types});
    Tensor sum = add(s, words, type_embeddings);
    const Tensor position_embeddings =
        call_one(s, module.child("position_embeddings"), {positions});
    sum = add(s, sum, position_embeddings);
    sum = call_one(s, module.child("LayerNorm"), {sum});
    return {call_one(s, module.child("dropout"), {sum})};
  };
}

Module::Forward language_head(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor x = call_one(s, module.child("dense"), {arguments[0]});
    x = call_gelu_module(s, x);
    x = call_one(s, module.child("layer_norm"), {x});
    return {call_one(s, module.child("decoder"), {x})};
  };
}

Module::Forward classification_head(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor x = select(s, arguments[0], 1, 0);
    x = call_one(s, module.child("dropout"), {x});
    x = call_one(s, module.child("dense"), {x});
    x = tanh(s, x);
    x = call_one(s, module.child("dropout"), {x});
    return {call_one(s, module.child("out_proj"), {x})};
  };
}

Module::Forward sequence_classifier(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const RootArguments given(arguments);
    const Tensors base =
        call(s, module.child("roberta"), {{given.input_ids, given.attention_mask}, 1});
    Tensor logits = call_one(s, module.child("classifier"), {base[0]});
    Tensor loss;
    if (given.labels) loss = classification_loss(s, logits, given.labels);
    return root_outputs(std::move(loss), std::move(logits), base);
  };
}

constexpr ClassForward table[] = {
    {"RobertaClassificationHead", classification_head},
    {"RobertaEmbeddings", embeddings},
    {"RobertaForSequenceClassification", sequence_classifier},
    {"RobertaLMHead", language_head},
};

}  // namespace

std::span<const ClassForward> roberta_forwards() { return table; }

}  // namespace shardscope::eager
