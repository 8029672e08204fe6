// torch.nn.Module: a tree of modules with parameters, a forward and hooks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pytorch/engine/autograd.h"

namespace shardscope::eager {

/// What a module is called with: tensors, None among them, in the order of Python's pytree
/// (positional ones, then keyword ones, tuples flattened). The callee knows which is which.
struct Arguments {
  Tensors tensors;
  /// How many are positional; -1: all of them.
  int positional = -1;
  /// An argument that is no tensor, but holds some. The callee knows its type.
  std::shared_ptr<void> object = nullptr;

  Arguments() = default;
  Arguments(std::initializer_list<Tensor> all) : tensors(all) {}
  Arguments(Tensors all, int positional_count)
      : tensors(std::move(all)), positional(positional_count) {}
  const Tensor& operator[](std::size_t i) const { return tensors[i]; }
};

/// What FSDP2 says of parameters to code that reads them outside of their module's forward.
class ShardedParameters {
 public:
  virtual ~ShardedParameters() = default;
  /// Whether the parameter is a DTensor now.
  virtual bool is_sharded(const Tensor& parameter) const = 0;
  /// DTensor.full_tensor() of one that is.
  virtual Tensor full_tensor(Session& s, const Tensor& parameter) const = 0;
};

class Module {
 public:
  using Forward = std::function<Tensors(Session&, Module&, const Arguments&)>;
  /// May change the arguments.
  using PreHook = std::function<void(Session&, Module&, Arguments&)>;
  /// May change the outputs.
  using ForwardHook = std::function<void(Session&, Module&, const Arguments&, Tensors& outputs)>;
  struct NamedTensor {
    std::string name;  ///< own: "weight"
    Tensor tensor;     ///< None: registered without
    bool persistent = true;
    /// False: a plain attribute, which is no parameter of the module.
    bool registered = true;
  };
  /// torch.nn.utils.parametrize: a parameter that code reads as something computed from it.
  struct Parametrization {
    std::string name;                 ///< of the parameter
    std::function<Tensor()> compute;  ///< empty: no longer registered
    Tensor value;                     ///< parametrize.cached(): once it was read
  };
  struct Child {
    std::string name;
    std::shared_ptr<Module> module;
  };

  std::string name;  ///< full: "model.layers.0.mlp"; "" is the root
  std::string class_name;
  /// In named_modules() order of the model as it was made; -1: a wrapper.
  int index = -1;
  bool training = true;
  std::vector<NamedTensor> parameters;  ///< own
  std::vector<NamedTensor> buffers;     ///< own
  std::vector<Parametrization> parametrizations;
  std::vector<Child> children;
  Forward forward;

  std::vector<PreHook> forward_pre_hooks;
  /// register_module_forward_hook(always_call=True): before the others, and without outputs where
  /// the forward ends by an exception.
  std::vector<ForwardHook> always_forward_hooks;
  std::vector<ForwardHook> forward_hooks;
  /// ZeROOrderedDict: called with a parameter before other code than the module's runtime reads it.
  std::function<void(const Tensor&)> before_read;
  /// Not owned; null: no parameter is ever a DTensor.
  const ShardedParameters* sharded = nullptr;

  /// By own name; Error if there is none.
  Module& child(std::string_view own_name) const;
  Tensor& parameter(std::string_view own_name);
  /// Asked of the parameter without reading it.
  const Dims& sizes_of(std::string_view own_name) const;
  Tensor& buffer(std::string_view own_name);
  /// The parameter at that place, as `module.weight` reads it; None if there are fewer.
  Tensor read(std::size_t place) const;
};

/// The parameter for code that gathers a DTensor by itself.
Tensor whole_parameter(Session& s, Module& module, std::string_view own_name);
/// The parameter for code that knows no DTensor: Refusal, as PyTorch raises, where it is one.
Tensor plain_parameter(Module& module, std::string_view own_name);

/// nn.Module._call_impl: hooks and forward. Arguments live until it returns.
Tensors call(Session& s, Module& module, Arguments arguments);
/// The first output of it.
Tensor call_one(Session& s, Module& module, Arguments arguments);

struct NamedParameter {
  std::string name;  ///< full
  Module* module;
  std::size_t place;  ///< in module->parameters
  Tensor& tensor() const { return module->parameters[place].tensor; }
};
/// modules(): depth first, each once.
std::vector<Module*> modules_of(Module& root);
/// named_parameters(): a shared one once, by its first name.
std::vector<NamedParameter> named_parameters_of(Module& root);
/// named_buffers(): as tensors with full names.
std::vector<std::pair<std::string, Tensor>> named_buffers_of(Module& root);

}  // namespace shardscope::eager
