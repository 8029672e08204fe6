#include "core/model/modules.h"

#include <utility>

namespace shardscope {
namespace {

constexpr Initialization zeros{.kind = Initialization::Kind::zeros, .standard_deviation = 0};
constexpr Initialization ones{.kind = Initialization::Kind::ones, .standard_deviation = 0};

Initialization normal(double standard_deviation) {
  return {.kind = Initialization::Kind::normal, .standard_deviation = standard_deviation};
}

}  // namespace

std::string joined(std::string_view prefix, std::string_view name) {
  if (prefix.empty()) return std::string(name);
  std::string result(prefix);
  result += '.';
  return result += name;
}

void add_module(Model& model, std::string name, std::string_view class_name) {
  model.modules.push_back({.name = std::move(name), .class_name = std::string(class_name)});
}

ParameterId add_parameter(Model& model, std::string name, Shape shape,
                          Initialization initialization) {
  model.parameters.push_back({.name = std::move(name),
                              .shape = std::move(shape),
                              .dtype = model.dtype,
                              .trainable = true,
                              .initialization = initialization});
  return ParameterId::of(model.parameters.size() - 1);
}

void add_tied(Model& model, std::string name, std::string_view first) {
  model.tied.push_back({.later = std::move(name), .first = std::string(first)});
}

ParameterId add_embedding(Model& model, const std::string& name, EmbeddingShape shape,
                          double standard_deviation) {
  add_module(model, name, shape.class_name);
  return add_parameter(model, name + ".weight", {shape.rows, shape.width},
                       normal(standard_deviation));
}

Linear add_linear(Model& model, const std::string& name, LinearShape shape,
                  double standard_deviation) {
  const bool in_out = shape.layout == WeightLayout::in_out;
  add_module(model, name, in_out ? "Conv1D" : "Linear");
  Linear linear{.module = name, .in = shape.in, .out = shape.out, .layout = shape.layout};
  const Shape weight = in_out ? Shape{shape.in, shape.out} : Shape{shape.out, shape.in};
  linear.weight = add_parameter(model, name + ".weight", weight, normal(standard_deviation));
  if (shape.bias) linear.bias = add_parameter(model, name + ".bias", {shape.out}, zeros);
  return linear;
}

ParameterId add_bias(Model& model, const std::string& module, std::int64_t width) {
  return add_parameter(model, module + ".bias", {width}, zeros);
}

Norm add_norm(Model& model, const std::string& name, const NormShape& shape) {
  add_module(model, name, shape.class_name);
  Norm norm{.module = name, .kind = shape.kind, .epsilon = shape.epsilon};
  norm.weight = add_parameter(model, name + ".weight", {shape.width}, ones);
  if (shape.kind == NormKind::layer_norm)
    norm.bias = add_parameter(model, name + ".bias", {shape.width}, zeros);
  return norm;
}

void add_rotary_buffers(Model& model, const std::string& module, std::int64_t frequencies,
                        std::string_view prefix) {
  const auto add = [&](std::string_view name) {
    model.buffers.push_back({.name = joined(module, std::string(prefix) + std::string(name)),
                             .shape = {frequencies},
                             .dtype = Dtype::float32,
                             .persistent = false});
  };
  add("inv_freq");
  if (model.transformers == TransformersVersion::v5) add("original_inv_freq");
}

std::string_view activation_class(std::string_view activation) {
  // transformers 5.23, src/transformers/activations.py, ACT2CLS
  constexpr std::pair<std::string_view, std::string_view> classes[] = {
      {"gelu", "GELUActivation"},
      {"gelu_10", "ClippedGELUActivation"},
      {"gelu_fast", "FastGELUActivation"},
      {"gelu_new", "NewGELUActivation"},
      {"gelu_python", "GELUActivation"},
      {"gelu_pytorch_tanh", "GELUTanh"},
      {"gelu_python_tanh", "GELUTanh"},
      {"gelu_accurate", "AccurateGELUActivation"},
      {"hardswish", "Hardswish"},
      {"laplace", "LaplaceActivation"},
      {"leaky_relu", "LeakyReLU"},
      {"linear", "LinearActivation"},
      {"mish", "MishActivation"},
      {"quick_gelu", "QuickGELUActivation"},
      {"relu", "ReLU"},
      {"relu2", "ReLUSquaredActivation"},
      {"relu6", "ReLU6"},
      {"sigmoid", "Sigmoid"},
      {"silu", "SiLUActivation"},
      {"sqrtsoftplus", "SqrtSoftplusActivation"},
      {"swish", "SiLU"},
      {"tanh", "Tanh"},
  };
  for (const auto& [name, class_name] : classes)
    if (name == activation) return class_name;
  return {};
}

}  // namespace shardscope
