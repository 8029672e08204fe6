// The family fsdp2 of the kind `collectives`: torch.distributed.fsdp.fully_shard.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/pytorch/runtimes/fsdp2/clip_grad_norm.h"
#include "core/pytorch/runtimes/fsdp2/fully_shard.h"
#include "core/pytorch/runtimes/fsdp2/state_dict.h"
#include "tests/recordings/collectives.h"
#include "tests/recordings/collectives_checkpoint.h"
#include "tests/recordings/collectives_log.h"
#include "tests/recordings/collectives_loop.h"
#include "tests/recordings/collectives_models.h"
#include "tests/recordings/recorded_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;
using eager::Module;  // not the model's
namespace f2 = eager::fsdp2;

std::string shown(const std::string& name) { return name.empty() ? "root" : name; }

/// The recorder's patch_fsdp2.
class Fsdp2Log : public f2::Watcher, public Observer {
 public:
  Fsdp2Log(EventLog& log, Module& root, const Json& settings)
      : log_(log), given_factor_(settings.value("divide_factor", Json())) {
    for (Module* module : modules_of(root)) order_.push_back(module);
  }

  std::string unit_of(const f2::ParameterGroup& group) const {
    std::vector<Module*> modules = group.modules();
    if (has_names_)  // _module_fqn goes by the model's order
      std::sort(modules.begin(), modules.end(),
                [this](Module* a, Module* b) { return place(a) < place(b); });
    std::string name;
    for (const Module* module : modules) name += (name.empty() ? "" : "+") + shown(module->name);
    return name;
  }

  void on_enter(Session&, const f2::Visit& visit) override {
    if (!visit.group) return enter_state(visit.site);
    const f2::ParameterGroup& group = *visit.group;
    const std::string unit = unit_of(group);
    switch (visit.site) {
      case f2::Site::unshard:
        note_skip(group, unit);
        return log_.enter("unshard", unit);
      case f2::Site::wait_for_unshard:
        waits_.push_back(group.has_pending_gather());
        if (waits_.back()) log_.add("wait_unshard", {{"unit", unit}});
        return log_.enter("wait_unshard", unit);
      case f2::Site::reshard:
        before_.push_back(group.sharded_state());
        return log_.enter("reshard", unit);
      case f2::Site::post_backward:
        log_.add("post_backward", {{"unit", unit},
                                   {"reduce_grads", group.switches.reduce_grads},
                                   {"all_reduce_grads", group.switches.all_reduce_grads}});
        return log_.enter("post_backward", unit);
      case f2::Site::pre_backward:
        log_.add("pre_backward", {{"unit", unit}, {"prefetched", group.has_pending_gather()}});
        return log_.enter("pre_backward", unit);
      case f2::Site::forward_prefetch:
        return enter_prefetch("forward", unit);
      case f2::Site::backward_prefetch:
        return enter_prefetch("backward", unit);
      case f2::Site::pre_forward:
        return log_.enter("pre_forward", unit);
      case f2::Site::post_forward:
        return log_.enter("post_forward", unit);
      default:
        return log_.enter("finalize_backward", unit);
    }
  }

  void on_leave(Session&, const f2::Visit& visit) override {
    if (!visit.group) return leave_state(visit.site);
    log_.leave();
    if (visit.site == f2::Site::wait_for_unshard) leave_wait(*visit.group);
    if (visit.site == f2::Site::reshard) leave_reshard(*visit.group);
  }

  void on_streams(Session&, const f2::Streams& streams) override {
    log_.name_stream(streams.copy_in, "all_gather_copy_in");
    log_.name_stream(streams.all_gather, "all_gather");
    log_.name_stream(streams.reduce_scatter, "reduce_scatter");
    log_.name_stream(streams.all_reduce, "all_reduce");
    log_.add("streams", {{"priorities",
                          {{"all_gather_copy_in", -1},
                           {"all_gather", -1},
                           {"reduce_scatter", -1},
                           {"all_reduce", 0}}}});
  }

  void on_gather_released(Session&, const Tensor& output) override {
    log_.add("free_all_gather_output", {{"numel", output.numel()}});
  }

  void on_division(Session&, const Tensor& divided, double by, bool before) override {
    // Python doubles an int before the reduction; afterwards it is a float, or as the user gave it.
    Json factor = before ? Json(static_cast<std::int64_t>(by)) : Json(by);
    if (!before && divided.dtype() != Dtype::float16 && given_factor_ == factor)
      factor = given_factor_;
    log_.add("div", {{"unit", log_.unit()},
                     {"factor", factor},
                     {"numel", divided.numel()},
                     {"dtype", name_of(divided.dtype())}});
  }

  void on_gradient_cast(Session&, const Tensor& reduced, Dtype dtype) override {
    log_.add("cast_grad", {{"unit", log_.unit()},
                           {"numel", reduced.numel()},
                           {"frm", name_of(reduced.dtype())},
                           {"to", Json::array({name_of(dtype)})}});
  }

  void on_operator(Session& s, const OperatorCall& call) override {
    if (!call.op.name.starts_with("fsdp.")) return;
    const auto numel = [](const TensorImpl* t) { return t->layout.sizes.product(); };
    Json fields{{"unit", log_.unit()}};
    if (call.op.name == "fsdp.all_gather_copy_in.default") {
      std::int64_t total = 0;
      for (const TensorImpl* input : call.inputs) total += numel(input);
      fields["numel"] = total;
      fields["s"] = log_.name_of(s.stream);
      log_.add("copy_in", fields);
    } else if (call.op.name == "fsdp.split_with_sizes_copy.default") {
      fields["numel"] = numel(call.inputs.front());
      fields["dtype"] = name_of(call.inputs.front()->layout.dtype);
      fields["s"] = log_.name_of(s.stream);
      log_.add("copy_out", fields);
    } else if (call.op.name == "fsdp.chunk_cat_mixed_dtype.default") {
      fields["grads"] = Json::array();
      for (const TensorImpl* grad : call.inputs)
        fields["grads"].push_back(Json::array({numel(grad), name_of(grad->layout.dtype)}));
      fields["numel"] = numel(call.outputs.front());
      fields["dtype"] = name_of(call.outputs.front()->layout.dtype);
      fields["s"] = log_.name_of(s.stream);
      log_.add("reduce_copy_in", fields);
    }
  }

 private:
  std::ptrdiff_t place(const Module* module) const {
    return std::find(order_.begin(), order_.end(), module) - order_.begin();
  }

  void enter_state(f2::Site site) {
    if (site == f2::Site::lazy_init) log_.enter("lazy_init");
    if (site == f2::Site::final_callback) log_.enter("final_callback");
  }

  void leave_state(f2::Site site) {
    if (site == f2::Site::lazy_init) has_names_ = true;
    if (site == f2::Site::lazy_init || site == f2::Site::final_callback) log_.leave();
  }

  void enter_prefetch(const std::string& mode, const std::string& target) {
    log_.add("prefetch", {{"mode", mode}, {"by", log_.unit()}, {"target", target}});
    log_.enter(mode + "_prefetch");
  }

  void note_skip(const f2::ParameterGroup& group, const std::string& unit) {
    const char* why = nullptr;
    if (group.has_pending_gather())
      why = "pending";
    else if (group.is_unsharded())
      why = "already_unsharded";
    else if (!group.switches.unshard_in_backward &&
             group.training_state() == f2::TrainingState::pre_backward)
      why = "unshard_in_backward_off";
    if (why) log_.add("unshard_skip", {{"unit", unit}, {"why", why}});
  }

  void leave_wait(const f2::ParameterGroup& group) {
    const bool waited = waits_.back();
    waits_.pop_back();
    if (!waited) return;
    std::int64_t numel = 0;
    for (const auto& parameter : group.parameters()) numel += parameter->gathered().numel();
    log_.add("unsharded", {{"unit", unit_of(group)}, {"numel", numel}});
  }

  void leave_reshard(const f2::ParameterGroup& group) {
    const f2::ShardedState before = before_.back();
    before_.pop_back();
    Json fields{{"unit", unit_of(group)}};
    if (before == group.sharded_state()) {
      log_.add("reshard_skip", fields);
      return;
    }
    const bool post_forward = group.sharded_state() == f2::ShardedState::sharded_post_forward;
    fields["to"] = post_forward ? "sharded_post_forward" : "sharded";
    if (post_forward) {
      std::int64_t kept = 0;
      for (const auto& parameter : group.parameters()) kept += parameter->post_forward_numel();
      fields["numel_kept"] = kept;
    }
    log_.add("reshard", fields);
  }

  EventLog& log_;
  Json given_factor_;
  std::vector<const Module*> order_;
  bool has_names_ = false;
  std::vector<bool> waits_;
  std::vector<f2::ShardedState> before_;
};

std::optional<Dtype> dtype_of(const Json& mp, const char* key) {
  if (!mp.contains(key) || mp.at(key).is_null()) return std::nullopt;
  return parse_dtype(mp.at(key).get<std::string>(), key);
}

f2::MixedPrecisionPolicy policy_of(const Json& settings) {
  if (!settings.contains("mp") || settings.at("mp").is_null()) return {};
  const Json& mp = settings.at("mp");
  return {.param_dtype = dtype_of(mp, "param_dtype"),
          .reduce_dtype = dtype_of(mp, "reduce_dtype"),
          .output_dtype = dtype_of(mp, "output_dtype"),
          .cast_forward_inputs = mp.value("cast_forward_inputs", true)};
}

f2::ReshardAfterForward reshard_of(const Json& value) {
  if (value == "default") return std::nullopt;
  if (value.is_boolean()) return value.get<bool>();
  return value.get<int>();
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "+") + name;
  return text;
}

/// One case, played.
class Fsdp2Run {
 public:
  Fsdp2Run(const Json& given, int rank)
      : given_(given),
        settings_(given.at("fsdp2")),
        groups_(given.at("world").get<int>(), rank),
        s_({.device = Device::cpu, .watched = true}),
        log_(groups_),
        model_(collectives_model(s_, given.at("model"))),
        fsdp2_log_(log_, *model_.root, settings_),
        sharded_(s_, groups_) {
    s_.observe(log_);
    s_.observe(fsdp2_log_);
    sharded_.watch(fsdp2_log_);
    for (const NamedParameter& named : named_parameters_of(*model_.root))
      if (named.tensor().requires_grad()) trainable_ += named.tensor().numel();
  }

  Json play() {
    log_.phase("construct");
    const std::string checkpointing = given_.value("activation_checkpoint", "");
    if (checkpointing == "sub") checkpoint();
    const std::vector<std::string> units = shard();
    mark(units);
    if (checkpointing.starts_with("outside") || checkpointing == "hf") checkpoint();
    const Json described = describe();
    TrainingHooks hooks{
        .forward = [this](const Arguments& batch) { return call(s_, *model_.root, batch); }};
    hooks.micro_batch = [this](bool last) { return set_synchronization(last); };
    for (const NamedParameter& named : named_parameters_of(*model_.root))
      hooks.parameters.push_back(named.tensor());
    Tensors trainable;
    for (const Tensor& parameter : hooks.parameters)
      if (parameter.requires_grad()) trainable.push_back(parameter);
    optimizer_ = std::make_unique<ParameterOptimizer>(
        std::move(trainable), OptimizerSettings{.rule = given_.value("optimizer", "adamw") == "sgd"
                                                            ? OptimizerRule::sgd
                                                            : OptimizerRule::adamw,
                                                .implementation = OptimizerImplementation::loop});
    hooks.step = [this] { optimizer_->step(s_); };
    const ProcessGroup& shard = *mesh_->shard;
    hooks.clip = [this, &shard, &hooks] {
      norm_ = f2::clip_grad_norm(s_, hooks.parameters, shard, norm_type());
      return norm_.norm.defined();
    };
    hooks.full_norm = [this, &shard] { f2::full_tensor(s_, norm_, shard); };
    hooks.action = [this](const Json& action) { act(action); };
    run_training(s_, log_, given_, *model_.root, hooks);
    return {{"groups", log_.groups()},
            {"trainable_params", trainable_},
            {"units", described},
            {"events", log_.events()}};
  }

 private:
  Module& at(const std::string& name) { return module_named(*model_.root, name); }

  std::vector<Module*> at(const Json& names) {
    std::vector<Module*> modules;
    for (const Json& name : names) modules.push_back(&at(name.get<std::string>()));
    return modules;
  }

  void checkpoint() {
    wrap_checkpoints(given_, *model_.root, model_.blocks, [](const Module&) { return false; });
  }

  /// wrap_fsdp2; returns the names of the units' modules.
  std::vector<std::string> shard() {
    mesh_ = sharded_.mesh(settings_.value("mesh", std::vector<int>{given_.at("world").get<int>()}));
    f2::Options options{.mesh = mesh_, .mixed_precision = policy_of(settings_)};
    const Json reshard = settings_.value("reshard_after_forward", Json("default"));
    const Json by_unit = settings_.value("unit_reshard", Json::object());
    Json units = settings_.value("units", Json(model_.blocks));
    for (const Json& unit : settings_.value("more_units", Json::array())) units.push_back(unit);
    std::vector<std::string> flat;
    for (const Json& unit : units) {
      const auto names = unit.is_array() ? unit.get<std::vector<std::string>>()
                                         : std::vector{unit.get<std::string>()};
      options.reshard_after_forward = reshard_of(by_unit.value(joined(names), reshard));
      sharded_.fully_shard(at(Json(names)), options);
      flat.insert(flat.end(), names.begin(), names.end());
    }
    options.reshard_after_forward = reshard_of(settings_.value("root_reshard", Json("default")));
    sharded_.fully_shard({model_.root.get()}, options);
    apply_switches();
    return flat;
  }

  void apply_switches() {
    Module& root = *model_.root;
    for (const Json& row : settings_.value("forward_prefetch", Json::array()))
      sharded_.set_forward_prefetch(at(row.at(0).get<std::string>()), at(row.at(1)));
    for (const Json& row : settings_.value("backward_prefetch", Json::array()))
      sharded_.set_backward_prefetch(at(row.at(0).get<std::string>()), at(row.at(1)));
    for (const Json& unit : settings_.value("unshard_in_backward", Json::array()))
      sharded_.set_unshard_in_backward(at(unit.get<std::string>()), false);
    sharded_.set_force_sum_reduction_for_comms(root, settings_.value("force_sum", false));
    if (settings_.contains("divide_factor"))
      sharded_.set_gradient_divide_factor(root, settings_.at("divide_factor").get<double>());
    sharded_.set(root, [this](f2::GroupSwitches& switches) {
      switches.reshard_after_backward =
          settings_.value("reshard_after_backward", switches.reshard_after_backward);
      switches.reduce_scatter_max_input_buffers = settings_.value("rs_max_input_buffers", 1);
      switches.unshard_async_op = settings_.value("unshard_async_op", false);
    });
  }

  void mark(const std::vector<std::string>& units) {
    std::vector<std::string> tracked = model_.tracked;
    for (const std::string& unit : units)
      if (std::find(tracked.begin(), tracked.end(), unit) == tracked.end()) tracked.push_back(unit);
    const bool marks = given_.value("mark_backward", true);
    for (const std::string& name : tracked) mark_forward(log_, at(name), name, marks);
    mark_forward(log_, *model_.root, "root", marks);
    for (const std::string& name : tracked) mark_backward(log_, at(name), name, marks);
    mark_backward(log_, *model_.root, "root", marks);
  }

  /// describe_fsdp2.
  Json describe() {
    Json rows = Json::array();
    std::vector<const f2::ParameterGroup*> seen;
    for (Module* module : modules_of(*model_.root)) {
      const f2::State* state = sharded_.state_of(*module);
      if (!state || !state->group()) continue;
      const f2::ParameterGroup& group = *state->group();
      if (std::find(seen.begin(), seen.end(), &group) != seen.end()) continue;
      seen.push_back(&group);
      rows.push_back(row_of(group));
    }
    return rows;
  }

  Json row_of(const f2::ParameterGroup& group) const {
    Json modules = Json::array(), parameters = Json::array();
    std::int64_t shard = 0;
    for (const Module* module : group.modules()) modules.push_back(shown(module->name));
    for (const auto& p : group.parameters()) {
      parameters.push_back({{"name", nullptr},
                            {"shape", p->size().span()},
                            {"local_shard", p->sharded_size().span()},
                            {"padded_shard", p->padded_sharded_size().span()}});
      shard += p->padded_sharded_size().product();
    }
    const f2::MeshInfoRef& post = group.post_forward_mesh();
    return {{"unit", fsdp2_log_.unit_of(group)},
            {"modules", modules},
            {"params", parameters},
            {"shard_numel", shard},
            {"reshard_after_forward", post != nullptr},
            {"post_forward_world", post ? Json(post->shard->size()) : Json()}};
  }

  std::shared_ptr<void> set_synchronization(bool last) {
    const Json accumulate = given_.value("accumulate", Json::object());
    if (accumulate.value("micro", 1) <= 1 || !accumulate.value("no_sync", false)) return {};
    Module& root = *model_.root;
    if (last) {
      sharded_.set_requires_gradient_sync(root, true);
      sharded_.set_requires_all_reduce(root, true);
      sharded_.set_is_last_backward(root, true);
      return {};
    }
    if (accumulate.value("all_reduce_only", false))
      sharded_.set_requires_all_reduce(root, false);
    else
      sharded_.set_requires_gradient_sync(root, false);
    if (accumulate.value("is_last_backward_false", false))
      sharded_.set_is_last_backward(root, false);
    return {};
  }

  double norm_type() const {
    const Json type = given_.value("norm_type", Json(2));
    return type.is_number() ? type.get<double>() : std::numeric_limits<double>::infinity();
  }

  void act(const Json& action) {
    Module& root = *model_.root;
    const std::string name = action.is_string() ? action : action.at("do");
    const Json& given = action.is_string() ? Json::object() : action;
    const f2::StateDictOptions options{
        .full_state_dict = given.value("full", false),
        .cpu_offload = given.value("cpu_offload", false),
        .broadcast_from_rank0 = given.value("broadcast_from_rank0", false)};
    if (name == "state_dict") f2::state_dict(s_, sharded_, root);
    if (name == "get_model_state_dict") f2::get_model_state_dict(s_, sharded_, root, options);
    if (name == "get_optimizer_state_dict")
      f2::get_optimizer_state_dict(s_, sharded_, root, *optimizer_, options);
    if (name == "set_model_state_dict") {
      f2::StateDict none;
      f2::set_model_state_dict(s_, sharded_, root, groups_.world(), none, options);
    }
    if (action == "unshard_all") sharded_.unshard(*model_.root);
    if (action == "reshard_all") sharded_.reshard(*model_.root);
  }

  const Json& given_;
  const Json& settings_;
  ProcessGroups groups_;
  Session s_;
  EventLog log_;
  RecordedModule model_;
  Fsdp2Log fsdp2_log_;
  f2::FullySharded sharded_;
  f2::MeshInfoRef mesh_;
  std::unique_ptr<ParameterOptimizer> optimizer_;
  f2::TotalNorm norm_;
  std::int64_t trainable_ = 0;
};

Json play(const Json& given, int rank) { return Fsdp2Run(given, rank).play(); }

}  // namespace

CollectivesFamily fsdp2_collectives() { return {.name = "fsdp2", .play = play}; }

}  // namespace shardscope::recordings
