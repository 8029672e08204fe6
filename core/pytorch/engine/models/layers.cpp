#include "core/pytorch/engine/models/layers.h"

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/loss.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/norm.h"
#include "core/pytorch/engine/aten/random.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/liger.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// None if the module has no such parameter.
Tensor find_parameter(const Module& module, std::string_view own_name) {
  for (const Module::NamedTensor& parameter : module.parameters)
    if (parameter.name == own_name) return parameter.tensor;
  return {};
}

Tensor bias_of(const Module& module) { return find_parameter(module, "bias"); }

Tensor linear_module(Session& s, Module& module, const Tensor& input) {
  return linear(s, input, module.parameter("weight"), bias_of(module));
}

/// transformers' Conv1D, pytorch_utils.py.
Tensor conv1d_module(Session& s, Module& module, const Tensor& input) {
  Dims sizes = input.sizes();
  sizes[-1] = module.parameter("weight").size(1);
  return view(s,
              addmm(s, module.parameter("bias"), view(s, input, {-1, input.size(-1)}),
                    module.parameter("weight")),
              sizes);
}

Tensor embedding_module(Session& s, Module& module, const Tensor& input) {
  return embedding(s, module.parameter("weight"), input);
}

Tensor layer_norm_module(Session& s, Module& module, const Tensor& input) {
  return layer_norm(s, input, find_parameter(module, "weight"), bias_of(module));
}

Tensor identity(Session&, Module&, const Tensor& input) { return input; }
Tensor silu_module(Session& s, Module&, const Tensor& input) { return silu(s, input); }
Tensor gelu_module(Session& s, Module&, const Tensor& input) { return gelu(s, input); }
Tensor relu_module(Session& s, Module&, const Tensor& input) { return relu(s, input); }
Tensor tanh_module(Session& s, Module&, const Tensor& input) { return tanh(s, input); }
Tensor sigmoid_module(Session& s, Module&, const Tensor& input) { return sigmoid(s, input); }

Tensor relu_squared(Session& s, Module&, const Tensor& input) {
  const Tensor positive = relu(s, input);
  return pow(s, positive, 2);
}

constexpr double any_factor = 0.5;

/// 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))), activations.py.
Tensor new_gelu(Session& s, Module&, const Tensor& x) {
  Tensor half = mul(s, x, any_factor);
  Tensor inner = mul(s, pow(s, x, 3.0), any_factor);
  inner = add(s, x, std::move(inner));
  return mul(s, std::move(half), add(s, tanh(s, mul(s, std::move(inner), any_factor)), 1.0));
}

/// x * sigmoid(1.702 * x).
Tensor quick_gelu(Session& s, Module&, const Tensor& x) {
  return mul(s, x, sigmoid(s, mul(s, x, any_factor)));
}

/// Which key of the config a Dropout has its probability from, by its own name.
struct DropoutKey {
  std::string_view model_type, name, key;
};
constexpr DropoutKey dropout_keys[] = {
    {"bert", "dropout", "hidden_dropout_prob"},
    {"gpt2", "attn_dropout", "attn_pdrop"},
    {"gpt2", "drop", "embd_pdrop"},
    {"gpt2", "dropout", "resid_pdrop"},
    {"gpt2", "resid_dropout", "resid_pdrop"},
    {"bloom", "attention_dropout", "attention_dropout"},
    {"gpt_neox", "emb_dropout", "hidden_dropout"},
    {"gpt_neox", "post_attention_dropout", "hidden_dropout"},
    {"gpt_neox", "post_mlp_dropout", "hidden_dropout"},
    {"gptj", "attn_dropout", "attn_pdrop"},
    {"gptj", "drop", "embd_pdrop"},
    {"gptj", "dropout", "resid_pdrop"},
    {"gptj", "resid_dropout", "resid_pdrop"},
    {"phi3", "resid_attn_dropout", "resid_pdrop"},
    {"phi3", "resid_mlp_dropout", "resid_pdrop"},
    {"roberta", "dropout", "hidden_dropout_prob"},
    {"t5", "dropout", "dropout_rate"},
};

/// The first of the keys that is there; modeling_layers.py, GenericForTokenClassification.
double classifier_dropout(const ModelConfig& config) {
  for (const char* key : {"classifier_dropout", "hidden_dropout_prob", "hidden_dropout"})
    if (const auto probability = config.find_number(key)) return *probability;
  return 0.1;
}

double dropout_probability(const ModelConfig& config, const Module& module) {
  // A dropout of the root, or of its head, belongs to a classifier.
  if (module.name == "dropout" || module.name == "classifier.dropout")
    return classifier_dropout(config);
  const std::string type = config.text("model_type");
  for (const DropoutKey& row : dropout_keys)
    if (row.model_type == type && row.name == own_name(module.name))
      return config.find_number(row.key).value_or(0);
  return 0;
}

Module::Forward dropout_module(const Context& context, const Module& owner) {
  const double probability = dropout_probability(context->config, owner);
  return [probability](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    return {dropout(s, arguments[0], probability, module.training)};
  };
}

template <Function function>
Module::Forward make(const Context&, const Module&) {
  return forward_of(function);
}

constexpr ClassForward table[] = {
    {"Conv1D", make<conv1d_module>},
    {"Dropout", dropout_module},
    {"Embedding", make<embedding_module>},
    {"GELUActivation", make<gelu_module>},
    {"GELUTanh", make<gelu_module>},
    {"Identity", make<identity>},
    {"LayerNorm", make<layer_norm_module>},
    {"Linear", make<linear_module>},
    {"NewGELUActivation", make<new_gelu>},
    {"PytorchGELUTanh", make<gelu_module>},
    {"QuickGELUActivation", make<quick_gelu>},
    {"ReLU", make<relu_module>},
    {"ReLUSquaredActivation", make<relu_squared>},
    {"SiLUActivation", make<silu_module>},
    {"Sigmoid", make<sigmoid_module>},
    {"Tanh", make<tanh_module>},
};

}  // namespace

std::span<const ClassForward> common_forwards() { return table; }

Module::Forward forward_of(Function function) {
  return [function](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    return {function(s, module, arguments[0])};
  };
}

Module::Forward rms_norm_forward(const Context& context, const Module&) {
  if (context->settings.liger.rms_norm)
    return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
      return {liger_rms_norm(s, arguments[0], module.parameter("weight"))};
    };
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Dtype given = arguments[0].dtype();
    Tensor hidden = to(s, arguments[0], Dtype::float32);
    Tensor variance = mean(s, pow(s, hidden, 2), {-1}, true);
    const LetGo locals(hidden, variance);
    hidden = mul(s, hidden, rsqrt(s, add(s, variance, 1e-6)));
    return {mul(s, module.parameter("weight"), to(s, hidden, given))};
  };
}

Tensor call_loss_module(Session& s, LossModule kind, const Tensor& input, const Tensor& target) {
  Module module;
  module.forward = [kind](Session& session, Module&, const Arguments& arguments) -> Tensors {
    switch (kind) {
      case LossModule::mean_squared_error:
        return {mse_loss(session, arguments[0], arguments[1])};
      case LossModule::binary_cross_entropy:
        return {binary_cross_entropy_with_logits(session, arguments[0], arguments[1])};
      case LossModule::cross_entropy:
        break;
    }
    return {cross_entropy(session, arguments[0], arguments[1])};
  };
  return call_one(s, module, {input, target});
}

Tensor call_gelu_module(Session& s, const Tensor& input) {
  Module module;
  module.forward = forward_of(gelu_module);
  return call_one(s, module, {input});
}

}  // namespace shardscope::eager
