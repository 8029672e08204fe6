// Small parts that several families have.
#pragma once

#include <string_view>

#include "core/pytorch/engine/models/context.h"

namespace shardscope::eager {

/// A forward of one tensor.
using Function = Tensor (*)(Session& s, Module& module, const Tensor& input);
Module::Forward forward_of(Function function);

/// The RMS norm of Llama and its relatives: normalised in float32, weighted in the input's dtype.
Module::Forward rms_norm_forward(const Context& context, const Module& module);

/// One of nn.CrossEntropyLoss, nn.MSELoss, nn.BCEWithLogitsLoss, made and called on the spot: a
/// module that does not belong to the model.
enum class LossModule : std::uint8_t { cross_entropy, mean_squared_error, binary_cross_entropy };
Tensor call_loss_module(Session& s, LossModule kind, const Tensor& input, const Tensor& target);
/// ACT2FN["gelu"] as a function: a module that does not belong to the model, either.
Tensor call_gelu_module(Session& s, const Tensor& input);

}  // namespace shardscope::eager
