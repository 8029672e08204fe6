#include "core/pytorch/engine/models/exported.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/model/exported_step.h"
#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/engine/operator_kind.h"

namespace shardscope::eager {
namespace {

using Event = ExportedProgram::Event;
using Value = ExportedProgram::Value;

/// The list that a node keeps its tensors in, each by its number.
constexpr std::string_view kept = "saved";

/// Whether all that a call returns are views of what it is given.
bool returns_views(const ExportedProgram& program, const Event& call) {
  const auto storage = [&](std::int32_t value) {
    return program.values[static_cast<std::size_t>(value)].storage;
  };
  const auto is_view = [&](std::int32_t output) {
    bool is_view_of_one = false;
    for (const std::int32_t input : call.inputs) {
      if (input == output) return false;
      is_view_of_one = is_view_of_one || storage(input) == storage(output);
    }
    return is_view_of_one;
  };
  return !call.outputs.empty() && std::all_of(call.outputs.begin(), call.outputs.end(), is_view);
}

/// A program with what is worked out of it once.
struct Prepared {
  explicit Prepared(const ExportedProgram& given) : program(given), calls(given.modules.size()) {
    for (const std::string& name : given.operators)
      operators.push_back({name, kind_of_operator(name)});
    views.reserve(given.operators.size());
    for (const std::string& name : given.operators) views.push_back({name, OperatorKind::view});
    for (std::size_t i = 0; i < given.forward.size(); ++i) {
      const Event& event = given.forward[i];
      if (event.kind == Event::Kind::call)
        calls[static_cast<std::size_t>(event.subject)].push_back(static_cast<int>(i));
      if (event.kind == Event::Kind::leave) ends[event.number] = static_cast<int>(i);
    }
  }

  const ExportedProgram& program;
  /// Of an operation: one that returns views alone launches nothing, whatever its name.
  const Operator& operator_of(const Event& call) const {
    const auto number = static_cast<std::size_t>(call.subject);
    return returns_views(program, call) ? views[number] : operators[number];
  }

  std::vector<Operator> operators, views;
  std::vector<std::vector<int>> calls;  ///< events, by module
  std::map<int, int> ends;              ///< event of a call -> event of its return
};

Dims dims_of(const std::vector<std::int64_t>& sizes) { return Dims(std::span(sizes)); }

TensorImpl::Layout layout_of(const ExportedProgram::Layout& layout) {
  return {.dtype = layout.dtype,
          .sizes = dims_of(layout.shape),
          .strides = dims_of(layout.strides),
          .offset = layout.offset};
}

Tensor tensor_in(const Storage& storage, const ExportedProgram::Layout& layout) {
  return Tensor(Ref<TensorImpl>(new TensorImpl(storage, layout_of(layout))));
}

bool has_child_named(const Module& module, std::string_view name) {
  return std::any_of(module.children.begin(), module.children.end(),
                     [&](const Module::Child& child) { return child.name == name; });
}

/// The module of a name below `root`, through wrappers, whose only child is what they wrap.
Module& below(Module& root, std::string_view name) {
  Module* module = &root;
  while (!name.empty()) {
    const std::size_t dot = name.find('.');
    const std::string_view own = name.substr(0, dot);
    while (!has_child_named(*module, own) && module->children.size() == 1)
      module = module->children[0].module.get();
    module = &module->child(own);
    name = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
  }
  return *module;
}

std::string precision_name(Dtype parameters, std::optional<Dtype> autocast) {
  return autocast ? fmt::format("{} under autocast to {}", name_of(parameters), name_of(*autocast))
                  : std::string(name_of(parameters));
}

/// The values that a backward formula has for itself: few, so that a search finds them.
class LocalValues {
 public:
  Tensor* find(std::int32_t value) {
    for (auto& [number, tensor] : all_)
      if (number == value) return &tensor;
    return nullptr;
  }
  void put(std::int32_t value, Tensor tensor) {
    if (Tensor* known = find(value))
      *known = std::move(tensor);
    else
      all_.emplace_back(value, std::move(tensor));
  }
  void drop(std::int32_t value) {
    std::erase_if(all_, [&](const auto& entry) { return entry.first == value; });
  }

 private:
  std::vector<std::pair<std::int32_t, Tensor>> all_;
};

}  // namespace

/// Plays one step after the other; its values are those of the step that runs.
class ExportedModel::Player : public std::enable_shared_from_this<Player> {
 public:
  Player(const shardscope::Model& model, const Use& use) : step_(model.step), use_(use) {
    for (const ExportedProgram& program : step_->programs) programs_.emplace_back(program);
  }

  Tensors inputs(Session& s, Device device) const {
    Tensors all;
    for (const ExportedProgram& program : step_->programs) {
      if (!is_of_size(program)) continue;
      for (const ExportedProgram::Input& input : program.inputs)
        all.push_back(zeros(s, dims_of(input.shape),
                            {input.dtype == Dtype::float32 ? use_.stores : input.dtype, device}));
      break;
    }
    return all;
  }

  void give_forwards(Module& root) {
    for (Module* module : modules_of(root)) {
      modules_[module->name] = module;
      module->forward = [me = shared_from_this()](Session& s, Module& called,
                                                  const Arguments& arguments) {
        return me->forward(s, called, arguments);
      };
    }
  }

  Tensor loss(Session& s, Tensors outputs) {
    const ExportedProgram& program = now_->program;
    bind(program.forward[static_cast<std::size_t>(now_->ends.at(0))].outputs, outputs);
    outputs.clear();
    play(s, now_->ends.at(0) + 1, static_cast<int>(program.forward.size()));
    Tensor result = value(s, program.loss);
    finish();
    if (s.grad_enabled && !result.requires_grad())
      throw Error({.where = "exported step",
                   .what = "its loss requires no gradient",
                   .way_out = "train a parameter, and export the model again"});
    return result;
  }

 private:
  bool is_of_size(const ExportedProgram& program) const {
    return program.batch == use_.batch && program.sequence == use_.sequence;
  }

  static std::size_t at(std::int32_t number) { return static_cast<std::size_t>(number); }

  // ---- Values

  const ExportedProgram::Layout& layout_of_value(std::int32_t value) const {
    const ExportedProgram& program = now_->program;
    return program.layouts[at(program.values[at(value)].layout)];
  }

  Module::NamedTensor& registered(const Value& value) {
    const std::size_t dot = value.name.rfind('.');
    const std::string owner = dot == std::string::npos ? "" : value.name.substr(0, dot);
    const std::string own = dot == std::string::npos ? value.name : value.name.substr(dot + 1);
    if (const auto found = modules_.find(owner); found != modules_.end()) {
      Module& module = *found->second;
      auto& table = value.kind == Value::Kind::parameter ? module.parameters : module.buffers;
      for (Module::NamedTensor& entry : table)
        if (entry.name == own) return entry;
    }
    throw Error(
        {.where = value.name,
         .what = "the runtime has removed it from its module, where the exported step reads it",
         .way_out = "choose another runtime"});
  }

  /// A runtime gathers parameters for the module that owns them.
  static void check_gathered(const Value& row, const Tensor& tensor,
                             const ExportedProgram::Layout& layout) {
    const std::int64_t wanted = dims_of(layout.shape).product();
    if (tensor.numel() == wanted) return;
    throw Error({.where = row.name,
                 .what = fmt::format("has {} elements where {} are needed: the module that uses "
                                     "it does not own it, and the runtime gathered it for its "
                                     "owner only",
                                     tensor.numel(), wanted),
                 .way_out = "choose FSDP with larger units, ZeRO-2 or DDP"});
  }

  /// A tensor that the model has brought along: made at its first use, and kept.
  const Tensor& constant(Session& s, std::int32_t value) {
    const ExportedProgram& program = now_->program;
    const Value& row = program.values[at(value)];
    Tensor& tensor = constants_[{now_, value}];
    if (!tensor) {
      Storage& storage = constant_storages_[{now_, row.storage}];
      const ExportedProgram::Storage& wanted = program.storages[at(row.storage)];
      if (!storage)
        storage =
            StorageImpl::allocate(s, {.bytes = wanted.bytes,
                                      .device = wanted.on_host ? Device::cpu : s.settings.device,
                                      .stream = s.stream});
      tensor = tensor_in(storage, layout_of_value(value));
    }
    return tensor;
  }

  Tensor value(Session& s, std::int32_t number) {
    if (number == ExportedProgram::none) return {};
    const Value& row = now_->program.values[at(number)];
    switch (row.kind) {
      case Value::Kind::parameter:
      case Value::Kind::buffer: {
        const Tensor& bound = values_[at(number)];
        if (bound) return bound;
        const Tensor& tensor = registered(row).tensor;
        check_gathered(row, tensor, layout_of_value(number));
        return tensor;
      }
      case Value::Kind::constant:
        return constant(s, number);
      case Value::Kind::input:
      case Value::Kind::made:
        break;
    }
    if (!values_[at(number)])
      throw Error({.where = "exported step",
                   .what = fmt::format("a module uses a tensor that is not among its arguments "
                                       "(value {}), so that it cannot be computed again",
                                       number),
                   .way_out = "leave --checkpointing out"});
    return values_[at(number)];
  }

  void bind(const std::vector<std::int32_t>& numbers, const Tensors& tensors) {
    for (std::size_t i = 0; i < numbers.size() && i < tensors.size(); ++i)
      if (numbers[i] != ExportedProgram::none && !is_brought_along(numbers[i]))
        values_[at(numbers[i])] = tensors[i];
  }

  bool is_brought_along(std::int32_t number) const {
    const Value::Kind kind = now_->program.values[at(number)].kind;
    return kind != Value::Kind::made && kind != Value::Kind::input;
  }

  // ---- Forward

  /// The program for parameters and autocast as they are now.
  const Prepared& program_for(const Session& s) {
    const std::optional<Dtype> autocast =
        s.autocast.enabled ? std::optional(s.autocast.dtype) : std::nullopt;
    std::string known;
    for (const Prepared& prepared : programs_) {
      const ExportedProgram& program = prepared.program;
      if (!is_of_size(program)) continue;
      if (program.parameters == use_.computes && program.autocast == autocast) return prepared;
      known += (known.empty() ? "" : ", ") + precision_name(program.parameters, program.autocast);
    }
    throw Error({.where = "precision",
                 .what = fmt::format("the export has no step for {}; it has {}",
                                     precision_name(use_.computes, autocast), known),
                 .way_out = "choose one of these, or export the model again with --precision"});
  }

  Tensors forward(Session& s, Module& module, const Arguments& arguments) {
    if (module.name.empty() && !s.recomputing) start(s, module);
    const int call = std::exchange(pending_, -1);
    const int begin = call >= 0 ? call : call_to_repeat(module);
    return call >= 0 ? run(s, begin, arguments) : run_again(s, begin, arguments);
  }

  void start(Session& s, Module& root) {
    now_ = &program_for(s);
    callees_.assign(now_->program.modules.size(), nullptr);
    running_root_ = &root;
    values_.assign(now_->program.values.size(), {});
    nodes_.assign(now_->program.nodes.size(), {});
    pending_ = 0;
  }

  /// The call that a checkpoint runs again, which only a module of one call tells.
  int call_to_repeat(const Module& module) const {
    const auto& names = now_->program.modules;
    const auto found = std::find(names.begin(), names.end(), module.name);
    const auto& calls = now_->calls[static_cast<std::size_t>(found - names.begin())];
    if (calls.size() == 1) return calls.front();
    throw Error({.where = module.name,
                 .what = fmt::format("runs {} times in a forward, of which a checkpoint cannot be "
                                     "told apart",
                                     calls.size()),
                 .way_out = "checkpoint the module around it"});
  }

  Tensors run(Session& s, int begin, const Arguments& arguments) {
    const Event& call = now_->program.forward[at(begin)];
    std::vector<std::pair<std::int32_t, Tensor>> before;
    for (std::size_t i = 0; i < call.inputs.size() && i < arguments.tensors.size(); ++i) {
      const std::int32_t number = call.inputs[i];
      if (number == ExportedProgram::none || is_brought_along(number)) continue;
      Tensor& bound = values_[at(number)];
      if (bound.is(arguments.tensors[i])) continue;
      before.emplace_back(number, std::exchange(bound, arguments.tensors[i]));
    }
    const int end = now_->ends.at(begin);
    play(s, begin + 1, end);
    Tensors outputs;
    for (const std::int32_t number : now_->program.forward[at(end)].outputs)
      outputs.push_back(value(s, number));
    // What hooks gave in the place of an argument is the module's alone.
    for (auto& [number, tensor] : before)
      if (values_[at(number)]) values_[at(number)] = std::move(tensor);
    return outputs;
  }

  /// A recomputation, whose values are gone at its end, also where an exception is that end.
  Tensors run_again(Session& s, int begin, const Arguments& arguments) {
    struct Forget {
      Player& player;
      int begin;
      ~Forget() { player.forget(begin); }
    };
    const Forget forget{*this, begin};
    return run(s, begin, arguments);
  }

  void forget(int begin) {
    const auto& events = now_->program.forward;
    const int end = now_->ends.at(begin);
    for (const std::int32_t number : events[at(begin)].inputs)
      if (number != ExportedProgram::none) values_[at(number)].reset();
    for (int i = begin + 1; i < end; ++i) {
      for (const std::int32_t number : events[at(i)].outputs)
        if (number != ExportedProgram::none) values_[at(number)].reset();
      if (events[at(i)].kind == Event::Kind::node) nodes_[at(events[at(i)].subject)].reset();
    }
    pending_ = -1;
  }

  void play(Session& s, int begin, int end) {
    for (int i = begin; i < end; ++i) {
      const Event& event = now_->program.forward[at(i)];
      switch (event.kind) {
        case Event::Kind::call:
          call_module(s, i);
          i = now_->ends.at(i);
          break;
        case Event::Kind::node:
          make_node_of(s, event);
          break;
        case Event::Kind::save:
          save(s, event);
          break;
        case Event::Kind::operation:
          run_operation(
              s, event, [&](std::int32_t v) { return value(s, v); },
              [&](std::int32_t v, Tensor t) { values_[at(v)] = std::move(t); });
          break;
        case Event::Kind::history:
          set_history_of(event);
          break;
        case Event::Kind::alias:
          values_[at(event.outputs[0])] =
              tensor_in(value(s, event.inputs[0]).storage(), layout_of_value(event.outputs[0]));
          break;
        case Event::Kind::attention:
          attend(s, event);
          break;
        case Event::Kind::death:
          values_[at(event.inputs[0])].reset();
          break;
        case Event::Kind::linear:
          if (s.linear_replacement) {
            values_[at(event.outputs[0])] = s.linear_replacement(
                s, value(s, event.inputs[0]), value(s, event.inputs[1]), value(s, event.inputs[2]));
            i = event.number;
          }
          break;
        case Event::Kind::leave:
        case Event::Kind::load:
        case Event::Kind::linear_end:
          break;
      }
    }
  }

  void call_module(Session& s, int begin) {
    const Event& event = now_->program.forward[at(begin)];
    Tensors tensors;
    for (const std::int32_t number : event.inputs) tensors.push_back(value(s, number));
    pending_ = begin;
    Module& module = callee(event.subject);
    const Tensors outputs = call(s, module, Arguments(std::move(tensors), event.number));
    bind(now_->program.forward[at(now_->ends.at(begin))].outputs, outputs);
  }

  /// The module as it stands in the tree: wrapped, where a runtime wrapped it.
  Module& callee(std::int32_t number) {
    Module*& found = callees_[at(number)];
    if (!found) found = &below(*running_root_, now_->program.modules[at(number)]);
    return *found;
  }

  void attend(Session& s, const Event& event) {
    values_[at(event.outputs[0])] =
        scaled_dot_product_attention(s, {.query = value(s, event.inputs[0]),
                                         .key = value(s, event.inputs[1]),
                                         .value = value(s, event.inputs[2]),
                                         .mask = value(s, event.inputs[3]),
                                         .dropout = event.dropout,
                                         .causal = event.causal,
                                         .grouped_queries = event.grouped_queries});
  }

  template <class Get, class Put>
  void run_operation(Session& s, const Event& event, const Get& get, const Put& put) {
    Tensors inputs;
    for (const std::int32_t number : event.inputs) inputs.push_back(get(number));
    Tensors outputs;
    for (const std::int32_t number : event.outputs)
      outputs.push_back(output_of(s, event, inputs, outputs, number));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (std::find(event.inputs.begin(), event.inputs.end(), event.outputs[i]) ==
          event.inputs.end())
        put(event.outputs[i], outputs[i]);
    std::vector<const Tensor*> in, out;
    for (const Tensor& tensor : inputs) in.push_back(&tensor);
    for (const Tensor& tensor : outputs) out.push_back(&tensor);
    dispatched(s, now_->operator_of(event), in, out, event.flops);
  }

  /// An input again, where it is written in place; a view of one; or a tensor of its own.
  Tensor output_of(Session& s, const Event& event, const Tensors& inputs, const Tensors& outputs,
                   std::int32_t number) {
    const ExportedProgram& program = now_->program;
    const auto same = std::find(event.inputs.begin(), event.inputs.end(), number);
    if (same != event.inputs.end()) {
      const Tensor& input = inputs[static_cast<std::size_t>(same - event.inputs.begin())];
      ++input->version;
      return input;
    }
    const std::int32_t storage = program.values[at(number)].storage;
    const auto lies_there = [&](std::int32_t other) {
      return program.values[at(other)].storage == storage;
    };
    const ExportedProgram::Layout& layout = layout_of_value(number);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (lies_there(event.inputs[i])) {
        Tensor view = tensor_in(inputs[i].storage(), layout);
        view->layout.offset += inputs[i]->layout.offset - layout_of_value(event.inputs[i]).offset;
        view->is_view = true;
        return view;
      }
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (lies_there(event.outputs[i])) return tensor_in(outputs[i].storage(), layout);
    const ExportedProgram::Storage& wanted = program.storages[at(storage)];
    return tensor_in(
        StorageImpl::allocate(s, {.bytes = wanted.bytes,
                                  .device = wanted.on_host ? Device::cpu : s.settings.device,
                                  .stream = s.stream}),
        layout);
  }

  // ---- Autograd

  void make_node_of(Session& s, const Event& event) {
    const ExportedProgram::Node& row = now_->program.nodes[at(event.subject)];
    NodeRef& node = nodes_[at(event.subject)];
    node.reset();
    Tensors targets;
    for (const std::int32_t number : row.edges) targets.push_back(value(s, number));
    std::vector<const Tensor*> pointers;
    for (const Tensor& tensor : targets) pointers.push_back(&tensor);
    // Weak: when a forward throws, its nodes are still in `nodes_` and behind `values_`.
    node = make_node(s, row.name, std::span<const Tensor* const>(pointers),
                     [me = weak_from_this(), prepared = now_, number = event.subject](
                         Session& in, Node& running, Tensors& gradients) -> Tensors {
                       return me.lock()->backward(in, *prepared, number, running, gradients);
                     });
    if (!node) return;
    for (const ExportedProgram::Node::Output& output : row.outputs)
      node->add_input({.dtype = output.dtype,
                       .device = output.on_host ? Device::cpu : s.settings.device,
                       .stream = s.stream,
                       .sizes = dims_of(output.shape)});
  }

  void save(Session& s, const Event& event) {
    const NodeRef& node = nodes_[at(event.subject)];
    if (!node) return;
    const Tensor tensor = value(s, event.inputs[0]);
    if (tensor.grad_fn() == node)
      node->save_output_listed(s, kept, event.number, tensor);
    else
      node->save_listed(s, kept, event.number, tensor);
  }

  void set_history_of(const Event& event) {
    const NodeRef& node = nodes_[at(event.subject)];
    if (!node) return;
    const Tensor& tensor = values_[at(event.outputs[0])];
    if (!tensor) return;
    tensor->grad_fn = node;
    tensor->output_number = static_cast<std::uint32_t>(event.number);
  }

  Tensors backward(Session& s, const Prepared& prepared, std::int32_t number, Node& node,
                   Tensors& gradients) {
    const Scoped<const Prepared*> of(now_, &prepared);
    const ExportedProgram::Node& row = prepared.program.nodes[at(number)];
    Tensors results(row.edges.size());
    LocalValues local;
    for (std::size_t i = 0; i < row.gradients.size(); ++i) {
      if (row.gradients[i] == ExportedProgram::none) continue;
      if (!gradients[i]) return results;  // nothing came where something did in the trace
      local.put(row.gradients[i], gradients[i]);
    }
    const auto get = [&](std::int32_t v) {
      const Tensor* mine = local.find(v);
      return mine ? *mine : value(s, v);
    };
    const auto put = [&](std::int32_t v, Tensor t) { local.put(v, std::move(t)); };
    for (const Event& event : row.steps) {
      if (event.kind == Event::Kind::operation) run_operation(s, event, get, put);
      if (event.kind == Event::Kind::alias)
        put(event.outputs[0],
            tensor_in(get(event.inputs[0]).storage(), layout_of_value(event.outputs[0])));
      if (event.kind == Event::Kind::load)
        put(event.outputs[0], node.saved_listed(s, kept, event.number));
      if (event.kind == Event::Kind::death) let_go(local, event.inputs[0]);
    }
    for (std::size_t i = 0; i < row.results.size(); ++i)
      if (row.results[i] != ExportedProgram::none && node.needs(i))
        results[i] = get(row.results[i]);
    for (const std::int32_t gone : row.deaths) let_go(local, gone);
    return results;
  }

  void let_go(LocalValues& local, std::int32_t number) {
    if (local.find(number))
      local.drop(number);
    else if (!is_brought_along(number))
      values_[at(number)].reset();
  }

  /// The names of the step's function go; what a backward still reads stays.
  void finish() {
    nodes_.assign(nodes_.size(), {});
    std::vector<bool> stays(values_.size());
    for (const ExportedProgram::Node& node : now_->program.nodes)
      for (const std::int32_t number : node.deaths) stays[at(number)] = true;
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (!stays[i]) values_[i].reset();
  }

  std::shared_ptr<const ExportedStep> step_;
  std::vector<Prepared> programs_;
  Use use_;
  std::map<std::string, Module*> modules_;  ///< by name, without wrappers
  Module* running_root_ = nullptr;
  std::vector<Module*> callees_;  ///< by module of the program, as called
  const Prepared* now_ = nullptr;
  Tensors values_;              ///< by number; None: not there, or of the model
  std::vector<NodeRef> nodes_;  ///< while the forward runs
  int pending_ = -1;            ///< event of the call that comes next; -1: a checkpoint's
  std::map<std::pair<const Prepared*, std::int32_t>, Tensor> constants_;
  std::map<std::pair<const Prepared*, std::int32_t>, Storage> constant_storages_;
};

ExportedModel::ExportedModel(Session& s, const shardscope::Model& model, const Use& use)
    : player_(std::make_shared<Player>(model, use)), root_(make_module_tree(s, model)) {
  player_->give_forwards(*root_);
}

ExportedModel::~ExportedModel() = default;

Tensors ExportedModel::inputs(Session& s, Device device) const {
  return player_->inputs(s, device);
}

Tensor ExportedModel::loss(Session& s, Tensors outputs) {
  return player_->loss(s, std::move(outputs));
}

}  // namespace shardscope::eager
