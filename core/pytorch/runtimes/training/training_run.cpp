#include "core/pytorch/runtimes/training/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/refusal.h"
#include "core/pytorch/engine/adapters/adalora.h"
#include "core/pytorch/engine/adapters/described.h"
#include "core/pytorch/engine/adapters/pretrained.h"
#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/plans/module_tree.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/common/to_empty.h"
#include "core/pytorch/runtimes/fsdp1/meta_modules.h"
#include "core/pytorch/runtimes/training/ddp_model.h"
#include "core/pytorch/runtimes/training/deepspeed_model.h"
#include "core/pytorch/runtimes/training/fsdp1_model.h"
#include "core/pytorch/runtimes/training/fsdp2_model.h"
#include "core/pytorch/runtimes/training/plain_model.h"
#include "core/pytorch/runtimes/training/tensor_model.h"

namespace shardscope::eager {
namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

/// apply_activation_checkpointing: modules below a module before it.
void checkpoint_below(Module& module, const std::set<std::string>& names,
                      const CheckpointOptions& options) {
  for (Module::Child& child : module.children) {
    checkpoint_below(*child.module, names, options);
    if (names.contains(child.module->name) && child.module->class_name != "CheckpointWrapper")
      child.module = checkpoint_wrapper(child.module, options);
  }
}

void add_checkpoints(Module& root, const CheckpointSetup& setup) {
  checkpoint_below(root, {setup.modules.begin(), setup.modules.end()}, setup.options);
}

/// model.forward = convert_outputs_to_fp32(autocast(model.forward)). Source: accelerate 1.15.0
/// accelerator.py, prepare_model; utils/operations.py, ConvertOutputsToFp32.
void add_autocast(Module& root, Dtype dtype) {
  root.forward = [dtype, forward = std::move(root.forward)](Session& s, Module& me,
                                                            const Arguments& arguments) {
    Tensors outputs;
    {
      const Autocast autocast(s, dtype);
      outputs = forward(s, me, arguments);
    }
    for (Tensor& output : outputs)
      if (output && (output.dtype() == Dtype::bfloat16 || output.dtype() == Dtype::float16))
        output = to(s, output, Dtype::float32);
    return outputs;
  };
}

void add_names(Module& module, const std::string& name, std::map<std::string, Module*>& found) {
  found.emplace(name, &module);
  for (const Module::Child& child : module.children)
    add_names(*child.module, joined(name, child.name), found);
}

Module* module_named(const std::map<std::string, Module*>& modules, const std::string& name) {
  const auto found = modules.find(name);
  if (found != modules.end()) return found->second;
  throw Error({.where = "fully_shard",
               .what = "the model has no module \"" + name + "\"",
               .way_out = "`shardscope model --modules` lists them"});
}

/// What a runtime is built from, on the module as it was made.
struct Building {
  Session& s;
  const shardscope::Model& described;
  const TrainingSetup& setup;
  ProcessGroups& groups;
  std::shared_ptr<Module> module;
  const Float8Layers* float8 = nullptr;

  void checkpoint() { add_checkpoints(*module, setup.checkpointing); }
};

void move_to_device(Session& s, const Tensor& tensor) {
  if (tensor && tensor.device() == Device::cpu)
    tensor.set_data(to(s, tensor, {.device = s.settings.device}));
}

/// Module.to(device).
void move_to_device(Session& s, Module& root) {
  const NoGrad no_grad(s);
  for (Module* module : modules_of(root)) {
    for (const Module::NamedTensor& own : module->parameters) move_to_device(s, own.tensor);
    for (const Module::NamedTensor& own : module->buffers) move_to_device(s, own.tensor);
  }
}

std::unique_ptr<ParallelModel> build(Building& b, const PlainSetup&) {
  if (b.setup.made_on == Device::cpu) move_to_device(b.s, *b.module);
  b.checkpoint();
  return std::make_unique<PlainModel>(std::move(b.module));
}

std::unique_ptr<ParallelModel> build(Building& b, const ddp::Options& options) {
  const NoGrad no_grad(b.s);
  move_to_device(b.s, *b.module);
  b.checkpoint();
  return std::make_unique<DdpModel>(b.s, std::move(b.module), b.groups.world(), options);
}

fsdp1::Groups groups_of(ProcessGroups& groups, const Fsdp1Settings& units) {
  const bool hybrid = is_hybrid(units.strategy);
  fsdp1::Groups result{.world = &groups.world(), .all = &groups.world()};
  if (units.mesh) {
    const auto made = groups.mesh({units.mesh->replicate, units.mesh->shard});
    result.all = made[0];
    result.shard = made[1];
    result.replicas = made[0];
    result.of_mesh = true;
  } else if (hybrid) {
    // Nodes of ranks_per_node, as _init_utils.py's _get_default_group splits them.
    const int shard = std::min(units.ranks_per_node, units.world);
    const auto made = groups.mesh({units.world / shard, shard});
    result.shard = made[1];
    result.replicas = made[0];
  }
  return result;
}

std::unique_ptr<ParallelModel> build(Building& b, const Fsdp1Setup& setup) {
  // A plan names modules as if none were checkpointed.
  Fsdp1Plan plan = plan_fsdp1(tree_of(b.described), setup.units, b.setup.rank);
  fsdp1::check_meta_modules(*b.module);
  b.checkpoint();
  return std::make_unique<Fsdp1Model>(
      b.s, fsdp1::FullySharded::Input{.module = std::move(b.module),
                                      .plan = std::move(plan),
                                      .options = setup.options,
                                      .groups = groups_of(b.groups, setup.units)});
}

/// Of each call: what is left out of all of them, below `root`.
fsdp2::Options options_of(const Fsdp2Setup& setup, Module& root) {
  fsdp2::Options options{.mixed_precision = setup.mixed_precision, .offload = setup.offload};
  std::set<const TensorImpl*> ignored;
  for (const NamedParameter& p : named_parameters_of(root))
    if (std::ranges::find(setup.ignored_parameters, p.name) != setup.ignored_parameters.end())
      ignored.insert(p.tensor().impl());
  if (!ignored.empty())
    options.ignored = [ignored](const Tensor& p) { return ignored.contains(p.impl()); };
  return options;
}

std::unique_ptr<ParallelModel> build(Building& b, const Fsdp2Setup& setup) {
  const fsdp2::Options options = options_of(setup, *b.module);
  b.checkpoint();
  std::map<std::string, Module*> modules;
  add_names(*b.module, "", modules);
  std::vector<FullyShardStep> steps;
  for (const Fsdp2Setup::Call& call : setup.calls) {
    FullyShardStep step{.modules = {}, .options = options};
    step.options.reshard_after_forward = call.reshard_after_forward;
    if (b.float8)
      step.options.gather_extension = [layers = b.float8](const Tensor& parameter) {
        return layers->extension_of(parameter);
      };
    for (const std::string& name : call.modules)
      step.modules.push_back(module_named(modules, name));
    steps.push_back(std::move(step));
  }
  return std::make_unique<Fsdp2Model>(b.s, std::move(b.module), b.groups, setup.mesh,
                                      std::move(steps));
}

/// Module.to(device); under zero.Init parameters follow one by one, as they are partitioned.
std::unique_ptr<ParallelModel> build(Building& b, const DeepSpeedSetup& setup) {
  const NoGrad no_grad(b.s);
  for (Module* module : modules_of(*b.module)) {
    for (const Module::NamedTensor& own : module->parameters)
      if (setup.settings.stage < 3) move_to_device(b.s, own.tensor);
    for (const Module::NamedTensor& own : module->buffers) move_to_device(b.s, own.tensor);
  }
  b.checkpoint();
  OptimizerSettings optimizer = b.setup.loop.optimizer;
  // On the host DeepSpeed insists on its DeepSpeedCPUAdam, which updates in one pass.
  if (setup.settings.offload_optimizer.device != OffloadDevice::none)
    optimizer.implementation = OptimizerImplementation::fused;
  return std::make_unique<DeepSpeedModel>(b.s, std::move(b.module), b.groups, setup.settings,
                                          optimizer, b.setup.loop.groups_by_decay);
}

/// Checkpoints are transformers' own.
std::unique_ptr<ParallelModel> build_divided(Building& b) {
  const std::vector<std::string>& names = b.setup.checkpointing.modules;
  for (Module* module : modules_of(*b.module))
    if (std::ranges::find(names, module->name) != names.end())
      checkpoint_forward(*module, b.setup.checkpointing.options);
  return std::make_unique<TensorModel>(b.s, std::move(b.module), b.groups, *b.setup.tensor,
                                       std::get_if<Fsdp2Setup>(&b.setup.runtime));
}

/// Elements of the parameters before they were cut, by name.
std::map<std::string, std::int64_t> whole_elements(const shardscope::Model& model) {
  std::map<std::string, std::int64_t> result;
  for (const Parameter& parameter : model.parameters)
    result.emplace(parameter.name, elements_of(parameter.shape));
  return result;
}

/// Every parameter whole on the device, sent by rank 0, and its shard beside it, which goes to the
/// host where FSDP2 offloads; then the buffers.
/// Source: accelerate 1.15.0 utils/fsdp_utils.py, fsdp2_load_full_state_dict.
void load_from_rank_0(Session& s, Module& root, const shardscope::Model& described,
                      const ProcessGroup& world, bool offloads) {
  const std::map<std::string, std::int64_t> whole = whole_elements(described);
  for (const NamedParameter& p : named_parameters_of(root)) {
    const Like kind{p.tensor().dtype(), s.settings.device};
    std::string name = p.name;
    for (const std::string_view wrapper = "_checkpoint_wrapped_module.";
         name.find(wrapper) != std::string::npos;)
      name.erase(name.find(wrapper), wrapper.size());
    const Tensor full = empty(s, {whole.at(name)}, kind);
    broadcast(s, world, full, 0);
    const Tensor shard = allocate_strided(s, kind, p.tensor().sizes(), p.tensor().strides());
    p.tensor().set_data(offloads ? to(s, shard, {.device = Device::cpu}) : shard);
  }
  for (Module* module : modules_of(root))
    for (Module::NamedTensor& own : module->buffers)
      if (own.tensor)
        own.tensor = allocate_strided(s, {own.tensor.dtype(), s.settings.device},
                                      own.tensor.sizes(), own.tensor.strides());
}

void fill_from_meta(Session& s, ParallelModel& model, const shardscope::Model& described,
                    const TrainingSetup& setup, const ProcessGroup& world) {
  const NoGrad no_grad(s);
  auto* const fsdp2 = dynamic_cast<Fsdp2Model*>(&model);
  if (setup.loads_from_rank_0) {
    const auto* settings = std::get_if<Fsdp2Setup>(&setup.runtime);
    const bool offloads = settings != nullptr && settings->offload.has_value();
    load_from_rank_0(s, model.module(), described, world, offloads);
    // A hook of load_state_dict, of every FSDPParam.
    if (fsdp2 != nullptr) fsdp2->sharded().reset_sharded_params();
    return;
  }
  to_empty(s, model.module(), fsdp2 != nullptr);
  if (fsdp2 != nullptr) fsdp2->sharded().reset_sharded_params();
}

/// Module.to(dtype) of FSDPModules: each unit keeps its old shards until its last new one is there.
/// Source: torch 2.15, FSDPModule._apply.
void cast_shards(Session& s, Module& module, Dtype dtype, fsdp2::FullySharded& sharded) {
  for (const Module::Child& child : module.children) cast_shards(s, *child.module, dtype, sharded);
  for (const Module::NamedTensor& own : module.parameters)
    if (own.tensor && own.tensor.is_floating_point() && own.tensor.dtype() != dtype)
      own.tensor.set_data(to(s, own.tensor, dtype));
  sharded.reset_sharded_params(module);
}

void cast_shards(Session& s, ParallelModel& model, Dtype dtype) {
  const NoGrad no_grad(s);
  if (auto* const fsdp2 = dynamic_cast<Fsdp2Model*>(&model))
    cast_shards(s, model.module(), dtype, fsdp2->sharded());
  if (auto* const fsdp1 = dynamic_cast<Fsdp1Model*>(&model))
    for (const auto& unit : fsdp1->sharded().units())
      if (unit->handle && unit->handle->flat().requires_grad() &&
          unit->handle->flat().dtype() != dtype)
        unit->handle->cast(s, dtype);
}

shardscope::Model with_trainable_in(shardscope::Model model, std::optional<Dtype> dtype) {
  for (Parameter& parameter : model.parameters)
    if (dtype && parameter.trainable) parameter.dtype = *dtype;
  return model;
}

/// Of parameters while a forward runs.
Dtype compute_dtype(const shardscope::Model& model, const TrainingSetup& setup) {
  std::optional<Dtype> dtype;
  if (const auto* fsdp1 = std::get_if<Fsdp1Setup>(&setup.runtime))
    dtype = fsdp1->options.precision.parameters;
  if (const auto* fsdp2 = std::get_if<Fsdp2Setup>(&setup.runtime))
    dtype = fsdp2->mixed_precision.param_dtype;
  if (const auto* zero = std::get_if<DeepSpeedSetup>(&setup.runtime))
    dtype = zero->settings.precision;
  if (!dtype) dtype = setup.trainable_dtype;
  return dtype.value_or(model.dtype);
}

ExportedModel::Use use_of(const shardscope::Model& model, const TrainingSetup& setup) {
  return {.batch = setup.loop.batch,
          .sequence = setup.loop.length,
          .computes = compute_dtype(model, setup),
          .stores = stored_dtype(model, setup)};
}

/// from_pretrained makes an empty model, whose weights go to the device one by one.
Device place_of_making(const TrainingSetup& setup) {
  const bool pretrained = setup.tensor || (setup.fine_tuning && setup.fine_tuning->from_pretrained);
  return pretrained ? Device::meta : setup.made_on;
}

SessionSettings settings_of_maker(const TrainingSetup& setup, Device device) {
  SessionSettings settings = setup.session;
  settings.device = device;
  return settings;
}

/// The host's program is written down micro-batch by micro-batch, some 30 KiB for each parameter;
/// and a matrix of attention scores still has to be counted in 64 bits.
constexpr std::int64_t max_visits_of_parameters = std::int64_t{1} << 17;
constexpr std::int64_t max_tokens = std::int64_t{1} << 30;
constexpr std::int64_t max_length = std::int64_t{1} << 22;

void check_bounds(const TrainingSettings& loop, std::size_t parameters) {
  const auto most = max_visits_of_parameters / static_cast<std::int64_t>(parameters + 1);
  if (loop.micro_batches > 1 && loop.micro_batches > most)
    throw Error({.where = "--accumulate",
                 .what = fmt::format(
                     "{} micro-batches of {} parameters are more than the {} that are played",
                     loop.micro_batches, parameters, most),
                 .way_out = "give fewer: memory is the same from 3 on"});
  if (loop.length > max_length || loop.sequences() > max_tokens / loop.length)
    throw Error({.where = "--batch and --seq",
                 .what = fmt::format("{} sequences of {} tokens are more than {} of {} at most",
                                     loop.batch, loop.length, max_tokens, max_length),
                 .way_out = "give what one rank has in one micro-batch"});
}

/// Nor does DeepSpeed ask under ZeRO-3, which takes parameters and buffers by itself.
bool keeps_parameters(const RuntimeSetup& runtime) {
  const auto* zero = std::get_if<DeepSpeedSetup>(&runtime);
  if (zero != nullptr && zero->settings.stage == 3) return false;
  const auto* fsdp1 = std::get_if<Fsdp1Setup>(&runtime);
  return !std::holds_alternative<Fsdp2Setup>(runtime) &&
         (fsdp1 == nullptr || fsdp1->options.use_original_parameters);
}

/// Weights that GPTQ or AWQ packed are buffers, which FSDP and ZeRO-3 leave whole.
void check_packed(const TrainingSetup& setup) {
  if (!setup.fine_tuning || !setup.fine_tuning->quantization ||
      !setup.fine_tuning->quantization->is_packed())
    return;
  const auto* zero = std::get_if<DeepSpeedSetup>(&setup.runtime);
  const bool whole = std::holds_alternative<PlainSetup>(setup.runtime) ||
                     std::holds_alternative<ddp::Options>(setup.runtime) ||
                     (zero != nullptr && zero->settings.stage < 3);
  if (!whole)
    throw Error({.where = "quantization",
                 .what = "a base of GPTQ or AWQ is predicted on one device, under DDP and ZeRO-1/2",
                 .way_out = "choose one of these: FSDP and ZeRO-3 would not shard it"});
}

/// AdaLoRA reads whole factors for its loss.
void check_adaptive_rank(const TrainingSetup& setup) {
  if (!setup.fine_tuning || !setup.fine_tuning->adapter ||
      !setup.fine_tuning->adapter->adaptive_rank)
    return;
  if (!std::holds_alternative<PlainSetup>(setup.runtime) &&
      !std::holds_alternative<ddp::Options>(setup.runtime))
    throw Error({.where = "AdaLoRA",
                 .what = "is predicted on one device and under DDP",
                 .way_out = "choose one of these, or LoRA"});
}

/// Null where nothing is in float8.
std::unique_ptr<Float8Layers> float8_layers(Module& root, const TrainingSetup& setup,
                                            const ProcessGroups& groups) {
  if (setup.float8.recipe == parallel::Float8Recipe::none) return nullptr;
  check_float8_device(setup.session.compute_capability);
  const auto* fsdp2 = std::get_if<Fsdp2Setup>(&setup.runtime);
  const bool plain = std::holds_alternative<PlainSetup>(setup.runtime) ||
                     std::holds_alternative<ddp::Options>(setup.runtime);
  if (setup.fine_tuning)
    throw Error({.where = "float8",
                 .what = "is not predicted beside adapters",
                 .way_out = "leave float8 out, or train without --peft"});
  if (!plain && (fsdp2 == nullptr || fsdp2->mesh.size() > 1))
    throw Error({.where = "float8",
                 .what = "float8 is predicted on one device, under DDP and under FSDP2 on one axis",
                 .way_out = "choose one of these, or bf16, which needs more memory"});
  return std::make_unique<Float8Layers>(float8_layers_of_accelerate(root), setup.float8,
                                        fsdp2 ? &groups.world() : nullptr);
}

void train_in_int8(Session& s, Module& root, const TrainingSetup& setup) {
  if (setup.int8 == Int8Training::none) return;
  if (!std::holds_alternative<PlainSetup>(setup.runtime) || setup.fine_tuning)
    throw Error({.where = "training in int8",
                 .what = "is predicted on one device, without adapters",
                 .way_out = "leave it out, or record a real run"});
  convert_to_int8_training(s, root, setup.int8);
}

ModelSettings model_settings(const TrainingSetup& setup) {
  ModelSettings settings = setup.model;
  settings.traced = setup.compiled == CompileScope::model;
  if (setup.loop.flattens && !settings.packed) settings.tokens_of_sequence = setup.loop.length;
  return settings;
}

std::unique_ptr<ParallelModel> wrapped_reference(Session& s, std::shared_ptr<Module> module,
                                                 const TrainingSetup& setup,
                                                 ProcessGroups& groups) {
  if (const auto* zero = std::get_if<DeepSpeedSetup>(&setup.runtime))
    return std::make_unique<DeepSpeedReference>(s, std::move(module), groups, zero->settings);
  const auto* fsdp2 = std::get_if<Fsdp2Setup>(&setup.runtime);
  if (fsdp2 == nullptr) return std::make_unique<PlainModel>(std::move(module));
  // prepare_fsdp: one unit, the whole model.
  std::vector<FullyShardStep> steps(1);
  steps[0] = {.modules = {module.get()}, .options = options_of(*fsdp2, *module)};
  steps[0].options.reshard_after_forward = fsdp2->reshards;
  return std::make_unique<Fsdp2Model>(s, std::move(module), groups, fsdp2->mesh, std::move(steps));
}

/// Whether a second model goes from the host to the device by what wraps it.
bool is_wrapped(const TrainingSetup& setup) {
  return std::holds_alternative<DeepSpeedSetup>(setup.runtime) ||
         std::holds_alternative<Fsdp2Setup>(setup.runtime);
}

shardscope::Model as_loaded(const shardscope::Model& model, const TrainingSetup& setup) {
  const auto* zero = std::get_if<DeepSpeedSetup>(&setup.runtime);
  return zero == nullptr ? model : with_dtype(model, zero->settings.precision);
}

/// The second model of a preference, which never trains. Null: there is none. `maker` is where an
/// empty one is made, or one that is wrapped. Source: TRL 1.16, models/utils.py (prepare_deepspeed,
/// prepare_fsdp).
std::unique_ptr<ParallelModel> reference_model(Session& s, Session& maker,
                                               const shardscope::Model& model,
                                               const JsonValue& config, const TrainingSetup& setup,
                                               ProcessGroups& groups) {
  if (setup.loop.reference != ReferencePolicy::copy) return nullptr;
  if (setup.fine_tuning && (setup.fine_tuning->adapter || setup.fine_tuning->quantization))
    throw Error({.where = "reference model",
                 .what = "a copy of the model is predicted without adapters",
                 .way_out = "give --reference adapter-off with --peft, or none"});
  if (std::holds_alternative<Fsdp1Setup>(setup.runtime))
    throw Refusal(
        "ValueError",
        {.where = "reference model",
         .what = "TRL 1.16 cannot wrap a second model by FSDP1, which finds its layers on "
                 "other devices than their rank's",
         .way_out = "give FSDP2, or compute its log-probabilities before the training "
                    "(precompute_ref_log_probs, --reference none)"});
  ModelSettings settings = model_settings(setup);
  settings.tiled.entropy = settings.tiled.mean_logits = settings.tiled.top1 = false;
  std::shared_ptr<Module> module;
  if (setup.fine_tuning && setup.fine_tuning->from_pretrained)
    module = load_pretrained(s, maker,
                             {.model = *setup.fine_tuning->base,
                              .config = config,
                              .settings = settings,
                              .quantization = {}})
                 .module;
  else
    module = make_module(is_wrapped(setup) ? maker : s, as_loaded(model, setup), config, settings);
  const bool autocast = !std::holds_alternative<Fsdp2Setup>(setup.runtime);
  if (setup.forward_autocast && autocast) add_autocast(*module, *setup.forward_autocast);
  return wrapped_reference(s, std::move(module), setup, groups);
}

}  // namespace

TrainingRun::TrainingRun(Session& s, const shardscope::Model& given, const JsonValue& config,
                         const TrainingSetup& setup, const SetupProbe& probe)
    : groups_(setup.world, setup.rank), saves_quantized_state_(keeps_parameters(setup.runtime)) {
  check_bounds(setup.loop, given.parameters.size());
  check_packed(setup);
  check_adaptive_rank(setup);
  shardscope::Model model = with_trainable_in(given, setup.trainable_dtype);
  const Device made_on = place_of_making(setup);
  const bool elsewhere = made_on != s.settings.device;
  if (elsewhere) maker_ = std::make_unique<Session>(settings_of_maker(setup, made_on));
  Session& maker = elsewhere ? *maker_ : s;
  std::shared_ptr<Module> module;
  std::shared_ptr<ExportedModel> exported;
  if (setup.fine_tuning) {
    FineTuningSetup tuning = *setup.fine_tuning;
    adapter_ = tuning.adapter;
    if (!tuning.trainable_dtype) tuning.trainable_dtype = setup.trainable_dtype;
    FineTuned tuned = fine_tuned(s, maker, {config, model_settings(setup), tuning}, probe);
    quantized_ = std::move(tuned.quantized);
    module = std::move(tuned.module);
    model = described(*module, *tuning.base);
  } else if (model.step) {
    exported = std::make_shared<ExportedModel>(maker, model, use_of(model, setup));
    module = exported->root();
  } else {
    module = make_module(maker, model, config, model_settings(setup));
  }
  float8_ = float8_layers(*module, setup, groups_);
  train_in_int8(s, *module, setup);
  Building building{.s = s,
                    .described = model,
                    .setup = setup,
                    .groups = groups_,
                    .module = std::move(module),
                    .float8 = float8_.get()};
  if (setup.forward_autocast) add_autocast(*building.module, *setup.forward_autocast);
  model_ = setup.tensor ? build_divided(building)
                        : std::visit([&](const auto& runtime) { return build(building, runtime); },
                                     setup.runtime);
  if (made_on == Device::meta && setup.made_on == Device::meta)
    fill_from_meta(s, *model_, model, setup, groups_.world());
  if (setup.dtype_of_shards) cast_shards(s, *model_, *setup.dtype_of_shards);
  if (probe) probe(SetupMoment::wrapped);
  if (setup.loop.reference == ReferencePolicy::copy && is_wrapped(setup))
    reference_maker_ = std::make_unique<Session>(settings_of_maker(setup, Device::cpu));
  std::unique_ptr<ParallelModel> reference = reference_model(
      s, reference_maker_ ? *reference_maker_ : maker, given, config, setup, groups_);
  loop_ = std::make_unique<TrainingLoop>(s, *model_, groups_.world(), setup.loop, exported);
  loop_->set_reference(std::move(reference));
  if (adapter_ && adapter_->adaptive_rank)
    loop_->after_step([allocator = std::make_shared<RankAllocator>(), model = model_.get()](
                          Session& in) { allocator->update(in, model->module()); });
  if (float8_)
    loop_->after_step([layers = float8_.get()](Session& in) { layers->precompute_scales(in); });
}

TrainingRun::~TrainingRun() = default;

}  // namespace shardscope::eager
