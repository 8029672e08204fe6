#include "core/pytorch/engine/adapters/lora_parameter.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/adapters/adapter_modules.h"
#include "core/pytorch/engine/adapters/lora.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr const char* class_name = "lora.ParamWrapper";
constexpr double any_scaling = 0.5;

Module& base_of(Module& layer) {
  Module* module = &layer;
  while (module->class_name == class_name) module = &module->child("base_layer");
  return *module;
}

/// What a wrapper knows of its parameter.
struct Form {
  std::string parameter;
  std::int64_t experts = 1;
  bool swapped = false;  ///< [experts, out, in]
  double scaling = 1;
};

Form form_of(const Module& base, const Dims& sizes, const AdaptedParameter& adapted) {
  const bool is_transposed = base.class_name == "GptOssExperts";
  return {.parameter = adapted.parameter,
          .experts = sizes.size() == 3 ? sizes[0] : 1,
          .swapped = sizes.size() == 3 && !is_transposed,
          .scaling = adapted.scaling};
}

struct InOut {
  std::int64_t in, out;
};
InOut features_of(const Form& form, const Dims& sizes) {
  if (sizes.size() == 2) return {sizes[1], sizes[0]};
  return form.swapped ? InOut{sizes[2], sizes[1]} : InOut{sizes[1], sizes[2]};
}

/// lora_A as (experts, rank, in), lora_B as (experts, out, rank).
struct Factors {
  Tensor a, b;
};
Factors factors_of(Session& s, Module& layer, const Form& form) {
  Tensor a = adapter_weight(layer.child("lora_A").child("default"));
  Tensor b = adapter_weight(layer.child("lora_B").child("default"));
  a = reshape(s, a, {form.experts, -1, a.size(-1)});
  b = permute(s, reshape(s, b, {b.size(0), -1, form.experts}), {2, 0, 1});
  return {std::move(a), std::move(b)};
}

/// _LoraFactorsProxy of get_delta_factors.
std::function<Tensor()> folded_factors(Session& s, Module& layer, const Form& form,
                                       const Tensor& weight) {
  auto [a, b] = factors_of(s, layer, form);
  Tensor left = form.swapped ? b : transpose(s, a, -2, -1);
  Tensor right = form.swapped ? a : transpose(s, b, -2, -1);
  left = to(s, std::move(left), weight.dtype());
  right = to(s, std::move(right), weight.dtype());
  return [&s, weight, left, right, scaling = form.scaling] {
    const Autocast off(s, s.autocast.dtype, false);
    return baddbmm(s, weight, left, right, {.alpha = scaling});
  };
}

/// Linear.get_delta_weight of a single matrix.
Tensor delta_of_one(Session& s, Module& layer, const Form& form, Dtype dtype) {
  const Tensor a = adapter_weight(layer.child("lora_A").child("default"));
  const Tensor b = adapter_weight(layer.child("lora_B").child("default"));
  return to(s, mul(s, matmul(s, b, a), form.scaling), dtype);
}

/// _LoraParameterProxy.
std::function<Tensor()> added_update(Session& s, Module& layer, const Form& form,
                                     const Tensor& weight) {
  const Tensor delta = delta_of_one(s, layer, form, weight.dtype());
  return [&s, weight, delta] { return add(s, weight, delta); };
}

/// _activate_lora: the parameter is read with its update while this lives. What was read is kept
/// until the last adapter of the module ends (parametrize.cached()).
class Activated {
 public:
  Activated(Session& s, Module& layer, const Form& form)
      : base_(base_of(layer)), place_(base_.parametrizations.size()) {
    const Tensor weight = base_.parameter(form.parameter);
    auto compute = form.experts > 1 ? folded_factors(s, layer, form, weight)
                                    : added_update(s, layer, form, weight);
    compute();  // register_parametrization looks at dtype and shape of a first result
    base_.parametrizations.push_back(
        {.name = form.parameter, .compute = std::move(compute), .value = {}});
  }
  Activated(const Activated&) = delete;
  Activated& operator=(const Activated&) = delete;
  ~Activated() {
    if (place_ > 0) {
      base_.parametrizations[place_].compute = {};
      return;
    }
    for (std::size_t i = base_.parametrizations.size(); i-- > 0;)
      base_.parametrizations[i].value.reset();
    base_.parametrizations.clear();
  }

 private:
  Module& base_;
  std::size_t place_;
};

[[noreturn]] void refuse(const AdaptedParameter& adapted, const char* what, const char* way_out) {
  throw Error({.where = "adapter of " + adapted.key,
               .what = fmt::format("PEFT takes no {} on a parameter", what),
               .way_out = fmt::format("{}, or name target_modules whose layers are linear "
                                      "(q_proj, k_proj, v_proj, o_proj)",
                                      way_out)});
}

void check(const AdaptedParameter& adapted, const LoraConfig& config, const Dims& sizes) {
  if (config.dropout > 0) refuse(adapted, "lora_dropout", "set lora_dropout to 0");
  if (config.lora_bias) refuse(adapted, "lora_bias", "leave lora_bias out");
  if (config.dora) refuse(adapted, "use_dora", "leave use_dora out");
  if (sizes.size() == 2 || sizes.size() == 3) return;
  throw Error({.where = "target_parameters: " + adapted.key,
               .what = fmt::format("has {} dimension{}, and PEFT adapts parameters of 2 or 3",
                                   sizes.size(), sizes.size() == 1 ? "" : "s"),
               .way_out = "leave it out"});
}

}  // namespace

bool is_target_parameter(const LoraConfig& config, std::string_view key) {
  return std::ranges::any_of(config.target_parameters, [&](const std::string& target) {
    return key == target || key.ends_with("." + target);
  });
}

std::string without_base_layers(std::string name) {
  constexpr std::string_view part = ".base_layer";
  for (std::size_t at = name.rfind(part); at != std::string::npos; at = name.rfind(part))
    name.erase(at, part.size());
  return name;
}

std::shared_ptr<Module> parameter_adapter(Session& s, std::shared_ptr<Module> base,
                                          const AdaptedParameter& adapted,
                                          const LoraConfig& config) {
  Module& owner = base_of(*base);
  const Tensor& weight = owner.parameter(adapted.parameter);
  const Dims sizes = weight.sizes();
  check(adapted, config, sizes);
  const Form form = form_of(owner, sizes, adapted);
  const auto [in, out] = features_of(form, sizes);
  const Like like{is_floating(weight.dtype()) ? weight.dtype() : Dtype::float32, weight.device()};
  auto layer = container(class_name);
  const auto a = linear_of(s, in, adapted.rank * form.experts, false, like);
  const auto b = linear_of(s, adapted.rank * form.experts, out, false, like);
  layer->children = {{"base_layer", std::move(base)},
                     {"lora_dropout", dict_of(dropout_of(0))},
                     {"lora_A", dict_of(a)},
                     {"lora_B", dict_of(b)},
                     {"lora_embedding_A", container("ParameterDict")},
                     {"lora_embedding_B", container("ParameterDict")},
                     {"lora_magnitude_vector", dict_of(nullptr)}};
  // Its parameter_name.
  layer->parameters.push_back({.name = form.parameter, .tensor = {}, .registered = false});
  layer->forward = [form](Session& session, Module& me, const Arguments& arguments) {
    const Activated activated(session, me, form);
    return call(session, me.child("base_layer"), arguments);
  };
  return layer;
}

void merge_parameter_adapter(Session& s, Module& layer) {
  Module& base = base_of(layer);
  const Tensor weight = base.parameter(layer.parameters[0].name);
  const Form form = form_of(base, weight.sizes(), {.parameter = layer.parameters[0].name});
  Tensor delta;
  if (form.experts == 1) {
    delta = delta_of_one(s, layer, form, weight.dtype());
  } else {
    const auto [a, b] = factors_of(s, layer, form);
    delta = mul(s, bmm(s, b, a), any_scaling);
    if (!form.swapped) delta = transpose(s, delta, 1, 2);
    delta = to(s, delta, weight.dtype());
  }
  add_(s, weight, delta);
}

}  // namespace shardscope::eager
