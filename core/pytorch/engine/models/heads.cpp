#include "core/pytorch/engine/models/heads.h"

#include "core/base/error.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/loss.h"
#include "core/pytorch/engine/aten/padding.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/models/cut_cross_entropy.h"
#include "core/pytorch/engine/models/fused_head.h"
#include "core/pytorch/engine/models/layers.h"
#include "core/pytorch/engine/models/liger.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

/// The child that is the base model: the first one. OPT's heads call its decoder past it.
Module& base_of(Module& module) {
  Module& base = *module.children.front().module;
  return base.class_name == "OPTModel" ? base.child("decoder") : base;
}

using ClassificationLoss = Tensor (*)(Session& s, const Tensor& logits, const Tensor& labels);

/// ForSequenceClassificationLoss: for one class a sequence it calls the function, not a module.
Tensor generic_classification_loss(Session& s, const Tensor& logits, const Tensor& labels) {
  if (logits.size(-1) == 1 || labels.is_floating_point())
    return classification_loss(s, logits, labels);
  Tensor flat = view(s, logits, {-1, logits.size(-1)});
  Tensor target = view(s, labels, {-1});
  return cross_entropy(s, flat, target);
}

/// The logits of every sequence's last token that is no padding, and what the head's forward has
/// names for on the way.
struct Pooled {
  Tensor kept, places, last, logits;
};

Pooled pooled_logits(Session& s, const Tensor& logits, const Tensor& input_ids,
                     std::optional<std::int64_t> padding) {
  const Device device = logits.device();
  const std::int64_t batch = input_ids.size(0);
  if (!padding && batch != 1)
    throw Error({.where = "config.json: pad_token_id",
                 .what = "sequences are classified by their last token that is no padding",
                 .way_out = "set pad_token_id, or take batches of one sequence"});
  if (!padding) {
    const Tensor rows = arange(s, batch, {Dtype::int64, device});
    return {.logits = index(s, select(s, logits, 1, -1), {rows})};
  }
  Pooled pooled;
  pooled.kept = to(s, compare(s, Comparison::ne, input_ids, *padding), Dtype::int32);
  pooled.places = arange(s, input_ids.size(-1), {Dtype::int32, device});
  pooled.last = argmax(s, mul(s, pooled.places, pooled.kept));
  pooled.logits = index(s, logits, {arange(s, batch, {Dtype::int64, device}), pooled.last});
  return pooled;
}

Module::Forward classifier(const Context& context, ClassificationLoss loss_of) {
  const auto padding = context->config.find_integer("pad_token_id");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const RootArguments given(arguments);
    const Tensors base = call(s, base_of(module), {{given.input_ids, given.attention_mask}, 1});
    const Tensor logits = call_one(s, module.child("score"), {base[0]});
    const Pooled pooled = pooled_logits(s, logits, given.input_ids, padding);
    Tensor loss;
    if (given.labels) loss = loss_of(s, pooled.logits, given.labels);
    return root_outputs(std::move(loss), pooled.logits, base);
  };
}

/// The flat logits and labels of all tokens. ForTokenClassification upcasts the logits.
Tensor generic_token_loss(Session& s, const Tensor& logits, const Tensor& labels) {
  Tensor flat = view(s, logits, {-1, logits.size(-1)});
  Tensor target = view(s, labels, {-1});
  return cross_entropy(s, to(s, std::move(flat), Dtype::float32), std::move(target));
}

Module::Forward token_classifier(ClassificationLoss loss_of) {
  return [loss_of](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const RootArguments given(arguments);
    const Tensors base = call(s, base_of(module), {{given.input_ids, given.attention_mask}, 1});
    const Tensor hidden = call_one(s, module.child("dropout"), {base[0]});
    Tensor logits = call_one(s, *module.children.back().module, {hidden});
    Tensor loss;
    if (given.labels) loss = loss_of(s, logits, given.labels);
    return root_outputs(std::move(loss), std::move(logits), base);
  };
}

}  // namespace

RootArguments::RootArguments(const Arguments& arguments)
    : input_ids(arguments[0]), attention_mask(arguments[1]), labels(arguments[2]) {}

Tensors root_outputs(Tensor loss, Tensor logits, const Tensors& base_outputs) {
  Tensors outputs{std::move(loss), std::move(logits)};
  outputs.insert(outputs.end(), base_outputs.begin() + 1, base_outputs.end());
  return outputs;
}

Tensor classification_loss(Session& s, const Tensor& logits, const Tensor& labels) {
  // One label is a regression; index labels of several classes are one class each.
  if (logits.size(-1) == 1) {
    Tensor input = squeeze(s, logits);
    Tensor target = squeeze(s, labels);
    return call_loss_module(s, LossModule::mean_squared_error, input, target);
  }
  if (labels.is_floating_point())
    return call_loss_module(s, LossModule::binary_cross_entropy, logits, labels);
  Tensor flat = view(s, logits, {-1, logits.size(-1)});
  Tensor target = view(s, labels, {-1});
  return call_loss_module(s, LossModule::cross_entropy, flat, target);
}

Tensor causal_language_loss(Session& s, Tensor logits, const Tensor& labels) {
  const LetGo let_go{logits};
  const std::int64_t vocabulary = logits.size(-1);
  logits = to(s, logits, Dtype::float32);
  // `labels` is bound to the padded ones until the loss is there.
  const Tensor padded = pad_last(s, labels, 1);
  Tensor targets = contiguous(s, slice(s, padded, -1, 1));
  logits = view(s, logits, {-1, vocabulary});
  targets = view(s, targets, {-1});
  return cross_entropy(s, logits, targets);
}

Module::Forward sequence_classification_forward(const Context& context, const Module&) {
  return classifier(context, classification_loss);
}

Module::Forward unflattened_classification_forward(const Context& context, const Module&) {
  return classifier(context, [](Session& s, const Tensor& logits, const Tensor& labels) {
    if (logits.size(-1) == 1 || labels.is_floating_point())
      return classification_loss(s, logits, labels);
    return call_loss_module(s, LossModule::cross_entropy, logits, labels);
  });
}

Module::Forward generic_classification_forward(const Context& context, const Module&) {
  return classifier(context, generic_classification_loss);
}

Module::Forward token_classification_forward(const Context&, const Module&) {
  return token_classifier([](Session& s, const Tensor& logits, const Tensor& labels) {
    Tensor flat = view(s, logits, {-1, logits.size(-1)});
    Tensor target = view(s, labels, {-1});
    return call_loss_module(s, LossModule::cross_entropy, flat, target);
  });
}

Module::Forward generic_token_forward(const Context&, const Module&) {
  return token_classifier(generic_token_loss);
}

namespace {

/// LigerForCausalLMLoss. Source: liger_kernel 0.8.5, transformers/model/loss_utils.py.
Tensor liger_language_loss(Session& s, Module& module, Tensor hidden, const Tensor& labels) {
  const Tensor padded = pad_last(s, labels, 1);
  Tensor targets = contiguous(s, slice(s, padded, -1, 1));
  hidden = view(s, hidden, {-1, hidden.size(-1)});
  targets = view(s, targets, {-1});
  return liger_fused_linear_cross_entropy(
      s, hidden, plain_parameter(module.child("lm_head"), "weight"), targets);
}

/// QWenLMHeadModel.forward (modeling_qwen.py of Qwen-7B), as transformers' models until 4.30 had
/// it: the logits without the last token's are copied, and cross_entropy takes them as they are.
Tensor copied_language_loss(Session& s, const Tensor& logits, const Tensor& labels) {
  const std::int64_t vocabulary = logits.size(-1), last = logits.size(1) - 1;
  const Tensor shifted = contiguous(s, slice(s, logits, 1, 0, last));
  const Tensor targets = contiguous(s, slice(s, labels, 1, 1));
  return cross_entropy(s, view(s, shifted, {-1, vocabulary}), view(s, targets, {-1}));
}

/// compute_cross_entropy of axolotl's patch, compiled: the sum of the losses, whose kernels keep
/// two numbers a row, and make the gradient of the logits in one pass.
Tensor compiled_cross_entropy(Session& s, const Tensor& logits, const Tensor& targets) {
  static constexpr Operator sums_op{"inductor.amax_sum", OperatorKind::reduction};
  static constexpr Operator loss_op{"inductor.nll_loss_sum", OperatorKind::reduction};
  static constexpr Operator back_op{"inductor.cross_entropy_backward", OperatorKind::pointwise};
  const auto run = [&](Session& in, const NodeRef& node) -> Tensors {
    const Like number = like(logits, Dtype::float32);
    const Tensor greatest = empty(in, {logits.size(0), 1}, number);
    const Tensor sums = empty(in, {logits.size(0), 1}, number);
    dispatched(in, sums_op, {&logits}, {&greatest, &sums});
    Tensor loss = empty(in, {}, number);
    dispatched(in, loss_op, {&logits, &targets, &greatest, &sums}, {&loss});
    if (node) {
      node->save(in, "logits", logits);
      node->save(in, "labels", targets);
      node->save(in, "amax", greatest);
      node->save(in, "log_sums", sums);
    }
    return {std::move(loss)};
  };
  const auto back = [](Session& in, Node& node, Tensors& gradients) -> Tensors {
    const Tensor of_rows = node.saved(in, "logits"), labels = node.saved(in, "labels");
    const Tensor greatest = node.saved(in, "amax"), sums = node.saved(in, "log_sums");
    Tensor gradient = empty_like(in, of_rows);
    dispatched(in, back_op, {&gradients[0], &of_rows, &labels, &greatest, &sums}, {&gradient});
    return {std::move(gradient)};
  };
  return apply_function(s, "CompiledFunctionBackward", {logits}, run, back).front();
}

/// for_causal_lm_chunked_loss: axolotl 130ef7c5, monkeypatch/loss/chunked.py. The parts are views
/// of whole logits, and their gradients are put together again.
Tensor loss_of_parts(Session& s, const Tensor& logits, const Tensor& labels, int parts) {
  const Tensor padded = pad_last(s, labels, 1);
  const Tensor targets = contiguous(s, slice(s, padded, -1, 1));
  const Tensors labels_of = chunk(s, targets, parts, 1), logits_of = chunk(s, logits, parts, 1);
  Tensors flat_labels, flat_logits;
  for (std::size_t i = 0; i < logits_of.size(); ++i) {
    flat_labels.push_back(reshape(s, labels_of[i], {-1}));
    flat_logits.push_back(reshape(s, logits_of[i], {-1, logits.size(-1)}));
  }
  Tensor total;
  for (std::size_t i = 0; i < logits_of.size(); ++i) {
    const Tensor loss = compiled_cross_entropy(s, flat_logits[i], flat_labels[i]);
    total = total ? add(s, total, loss) : add(s, loss, any_factor);
  }
  return div(s, total, any_factor);
}

/// TransformerDecoder.chunked_output: a product for each part of the sequence.
Tensors chunked_logits(Session& s, Module& module, const Tensor& hidden, int chunks) {
  const std::int64_t length = hidden.size(1), chunk = (length + chunks - 1) / chunks;
  Tensors outputs{Tensor()};
  for (std::int64_t begin = 0; begin < length; begin += chunk)
    outputs.push_back(call_one(s, module.child("lm_head"),
                               {slice(s, hidden, 1, begin, std::min(begin + chunk, length))}));
  return outputs;
}

/// get_output_embeddings().weight: of PEFT's wrapper the copy that trains.
Module& trained_head(Module& head) {
  if (head.class_name != "ModulesToSaveWrapper") return head;
  return head.child("modules_to_save").child("default");
}

void check_head(const ModelContext& context, const Module& head, const char* loss) {
  if (context.config.lacks("logits_scaling") && context.config.lacks("logit_scale") &&
      context.config.lacks("final_logit_softcapping") && head.parameters.size() == 1)
    return;
  throw Error({.where = loss,
               .what = "logits that the model scales or caps, or that have a bias, are not known "
                       "here",
               .way_out = "leave it out, which needs more memory; or record a real run"});
}

/// Labels of the tokens that there are logits of: ms-swift's prepare_logits_to_keep.
Tensor kept_labels(Session& s, const Tensor& labels, const Tensor& logits) {
  const std::int64_t first = labels.size(1) - logits.size(1);
  return first > 0 ? slice(s, labels, 1, first) : labels;
}

}  // namespace

Module::Forward causal_language_forward(const Context& context, const Module&) {
  return [context](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const RootArguments given(arguments);
    const Tensors base = call(s, base_of(module), {given.input_ids, given.attention_mask});
    const bool fused = context->settings.liger.fused_linear_cross_entropy;
    if (fused && module.training && given.labels)
      return root_outputs(liger_language_loss(s, module, alias(s, base[0]), given.labels), {},
                          base);
    const ModelSettings& settings = context->settings;
    if (settings.loss == LanguageLoss::cut && module.training && given.labels) {
      Module& head = module.child("lm_head");
      check_head(*context, head, "cut-cross-entropy");
      return root_outputs(
          cut_cross_entropy(s, alias(s, base[0]), plain_parameter(head, "weight"), given.labels),
          {}, base);
    }
    if (settings.loss == LanguageLoss::tiled && given.labels) {
      Module& head = trained_head(module.child("lm_head"));
      check_head(*context, head, "TRL's fused head");
      Tensors outputs = fused_head(s, {.hidden = base[0],
                                       .weight = whole_parameter(s, head, "weight"),
                                       .labels = given.labels,
                                       .settings = settings.tiled});
      outputs.insert(outputs.end(), base.begin() + 1, base.end());
      return outputs;
    }
    if (settings.logit_chunks > 0 && !given.labels)
      return chunked_logits(s, module, base[0], settings.logit_chunks);
    Tensor logits;
    {
      const std::int64_t first = settings.first_logit;
      const Tensor hidden = first > 0 ? slice(s, base[0], 1, first) : alias(s, base[0]);
      logits = call_one(s, module.child("lm_head"), {hidden});
    }
    if (!context->config.lacks("logits_scaling")) logits = div(s, logits, any_factor);
    if (!context->config.lacks("logit_scale")) logits = mul(s, logits, any_factor);
    if (!context->config.lacks("final_logit_softcapping")) {
      logits = div(s, logits, any_factor);
      logits = tanh(s, logits);
      logits = mul(s, logits, any_factor);
    }
    const bool floated = settings.loss == LanguageLoss::floated;
    if (floated || (settings.float_logits && !given.labels))
      logits = to(s, std::move(logits), Dtype::float32);
    Tensor loss;
    if (given.labels)
      loss = settings.logit_chunks > 0
                 ? loss_of_parts(s, logits, given.labels, settings.logit_chunks)
             : floated || settings.loss == LanguageLoss::copied
                 ? copied_language_loss(s, logits, given.labels)
                 : causal_language_loss(s, logits, kept_labels(s, given.labels, logits));
    return root_outputs(std::move(loss), std::move(logits), base);
  };
}

}  // namespace shardscope::eager
