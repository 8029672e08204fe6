// Adds PyTorch's and transformers' standard modules, with their parameters, to a model under
// construction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/model/model.h"

namespace shardscope {

/// "prefix.name", or "name" under the root.
std::string joined(std::string_view prefix, std::string_view name);

void add_module(Model& model, std::string name, std::string_view class_name);

/// A parameter of its own of the module that was added last.
ParameterId add_parameter(Model& model, std::string name, Shape shape,
                          Initialization initialization);
/// A name of the module that was added last for the parameter `first` of an earlier one.
void add_tied(Model& model, std::string name, std::string_view first);

/// torch.nn.Embedding: weight (rows, width).
struct EmbeddingShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::string_view class_name = "Embedding";
};
ParameterId add_embedding(Model& model, const std::string& name, EmbeddingShape shape,
                          double standard_deviation);

/// torch.nn.Linear (out_in) or transformers' Conv1D (in_out), with a bias of zeros if wanted.
struct LinearShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  WeightLayout layout = WeightLayout::out_in;
};
Linear add_linear(Model& model, const std::string& name, LinearShape shape,
                  double standard_deviation);

/// "module.bias" of zeros, of a Linear whose weight is another parameter again.
ParameterId add_bias(Model& model, const std::string& module, std::int64_t width);

/// torch.nn.LayerNorm (weight and bias) or an RMS norm (weight), drawn as ones and zeros.
struct NormShape {
  NormKind kind = NormKind::layer_norm;
  std::string_view class_name = "LayerNorm";
  std::int64_t width = 0;
  double epsilon = 1e-5;
};
Norm add_norm(Model& model, const std::string& name, const NormShape& shape);

/// The buffers of a rotary embedding: inverse frequencies, and from transformers 5 on a second copy
/// (in release 4 a plain attribute, the same tensor). `prefix` stands before their names.
void add_rotary_buffers(Model& model, const std::string& module, std::int64_t frequencies,
                        std::string_view prefix = {});

/// The class that transformers' ACT2FN gives for an activation's name; empty if there is none
/// without parameters.
std::string_view activation_class(std::string_view activation);

}  // namespace shardscope
