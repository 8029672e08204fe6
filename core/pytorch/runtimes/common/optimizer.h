// torch.optim's Adam, AdamW and SGD with the temporaries that each implementation makes,
// bitsandbytes' AdamW, Lion and RMSprop, transformers' Adafactor, and Moonlight's Muon.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/pytorch/engine/autograd.h"

namespace shardscope::eager {

enum class OptimizerRule : std::uint8_t { adamw, adam, sgd, adafactor, muon };
/// foreach is PyTorch's default on CUDA, loop on the CPU.
enum class OptimizerImplementation : std::uint8_t { foreach, fused, loop };

/// bitsandbytes' optimizers: state of 8 or 32 bits, which large parameters keep in managed memory
/// if it is paged. They update one parameter after the other, each with one kernel.
struct BitsAndBytesOptimizer {
  int bits = 8;
  bool paged = false;
  bool one_moment = false;  ///< Lion and RMSprop: AdamW has two
  /// The Trainer's rule: the states of nn.Embedding's weights have 32 bits.
  bool embeddings_in_float = false;
  bool operator==(const BitsAndBytesOptimizer&) const = default;
};

/// Only what decides which operators run; learning rates do not.
struct OptimizerSettings {
  OptimizerRule rule = OptimizerRule::adamw;
  OptimizerImplementation implementation = OptimizerImplementation::foreach;
  bool weight_decay = true;
  bool amsgrad = false;  ///< of adam and adamw
  /// Of adam and adamw with foreach or fused: steps are counted on the device, nothing is read
  /// back.
  bool capturable = false;
  /// Of adam and adamw with foreach: the denominator is a list of its own beside the square roots.
  /// Source: torch/optim/adamw.py of PyTorch 2.0; from 2.1 on epsilon is added in place.
  bool denominator_apart = false;
  bool momentum = false;                                   ///< of sgd
  bool nesterov = false;                                   ///< of sgd
  std::optional<BitsAndBytesOptimizer> bitsandbytes = {};  ///< in place of `rule`
  bool operator==(const OptimizerSettings&) const = default;
};

/// What a GradScaler gives a fused optimizer, as tensors on the device; None: no scaler.
struct FusedScaling {
  Tensor scale;
  Tensor found_inf;
};

/// How a gradient that lies otherwise than its parameter becomes like it: DTensor's operators do so
/// every time that one reads it.
using GradientView =
    std::function<Tensor(Session& s, const Tensor& parameter, const Tensor& gradient)>;

/// One parameter group. Source: torch/optim/adam.py, adamw.py, sgd.py, optimizer.py of torch 2.15;
/// optim/optimizer.py of bitsandbytes 0.50.2; optimization.py of transformers 5.24.
class ParameterOptimizer {
 public:
  ParameterOptimizer(Tensors parameters, const OptimizerSettings& settings);

  /// `scaling` is for fused ones.
  void step(Session& s, const FusedScaling& scaling = {});
  void zero_grad(Session& s, bool set_to_none = true);
  /// GlobalOptimManager.register_module_override(..., {"optim_bits": 32}) of bitsandbytes.
  void keep_in_float(Tensors parameters) { in_float_ = std::move(parameters); }
  /// Of muon: these go to AdamW, as do all that are no matrices.
  void leave_to_adamw(Tensors parameters) { left_to_adamw_ = std::move(parameters); }
  void read_gradients_through(GradientView view) { gradient_view_ = std::move(view); }

  /// State of one parameter: none before the first step in which it has a gradient.
  struct State {
    Tensor step;          ///< on the CPU; fused or capturable: on the device
    Tensor first_moment;  ///< exp_avg; of sgd and muon the momentum; of adafactor exp_avg_sq or its
                          ///< rows
    Tensor second_moment;    ///< exp_avg_sq; of adafactor its columns
    Tensor greatest_moment;  ///< max_exp_avg_sq
    /// Of bitsandbytes' 8 bits: absmax1 and absmax2. Its moments are state1 and state2; paged ones
    /// are on the CPU.
    Tensor first_scales, second_scales;
    Tensor scale;  ///< of adafactor: RMS
  };
  const Tensors& parameters() const { return parameters_; }
  const OptimizerSettings& settings() const { return settings_; }
  const std::vector<State>& states() const { return states_; }
  /// bitsandbytes' tables of 8-bit numbers, which all parameters share; none before they are
  /// needed.
  const Tensors& code_tables() const { return code_tables_; }

 private:
  struct Group;  // the parameters of one dtype and device that have a gradient
  std::vector<Group> groups() const;
  Tensors read_gradients(Session& s, const Group& group) const;
  Tensor read_gradient(Session& s, const Tensor& parameter, const Tensor& gradient) const;
  void make_adam_states(Session& s);
  void adam(Session& s, Group& group, const FusedScaling& scaling);
  void adam_foreach(Session& s, Group& group);
  void adam_foreach_update(Session& s, Group& group, const Tensors& steps);
  void adam_foreach_update_captured(Session& s, Group& group, const Tensors& steps);
  void adam_fused(Session& s, Group& group, const FusedScaling& scaling);
  void adam_loop(Session& s, Group& group);
  void bitsandbytes_step(Session& s);
  void make_bitsandbytes_state(Session& s, const Tensor& parameter, State& state);
  void adafactor_step(Session& s);
  void make_adafactor_state(Session& s, const Tensor& gradient, State& state);
  void muon_step(Session& s);
  bool is_left_to_adamw(const Tensor& parameter) const;
  void sgd(Session& s, Group& group, const FusedScaling& scaling);
  void sgd_foreach(Session& s, Group& group);
  void sgd_fused(Session& s, Group& group, const FusedScaling& scaling);
  void sgd_loop(Session& s, Group& group);

  Tensors parameters_;
  OptimizerSettings settings_;
  GradientView gradient_view_;
  std::vector<State> states_;  // by parameter
  Tensors code_tables_;
  Tensors in_float_;
  Tensors left_to_adamw_;
};

}  // namespace shardscope::eager
