#include "sim/planner/phases.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/base/refusal.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/training/phases.h"
#include "sim/planner/memory_play.h"
#include "sim/prediction/run_facts.h"

namespace shardscope::planner {
namespace {

Bytes parameter_bytes(const Model& model) {
  Bytes sum;
  for (const Parameter& p : model.parameters) sum += bytes_of(p.elements(), p.dtype);
  return sum;
}

Bytes largest_parameter(const Model& model) {
  Bytes largest;
  for (const Parameter& p : model.parameters)
    largest = std::max(largest, bytes_of(p.elements(), p.dtype));
  return largest;
}

Bytes bytes_on_host(const eager::Tensor& tensor) {
  return tensor && tensor.device() == eager::Device::cpu ? tensor.bytes() : Bytes{};
}

/// One tensor of an optimizer's state, as its file has it.
struct SavedState {
  eager::Dims sizes;
  eager::Like kind;
};

struct SavedStates {
  std::vector<SavedState> tensors;
  Bytes file;                        ///< this rank's part, under ZeRO with its masters
  Bytes whole;                       ///< what FSDP gathered
  std::int64_t largest_trained = 0;  ///< elements of the largest parameter that trains
};

class Phases {
 public:
  Phases(const PytorchTraining& training, const Model& model, const JsonValue& config,
         const HardwareProfile& profile, const HeldBeside& beside, std::int64_t eval_batch)
      : training_(training),
        profile_(profile),
        setup_(training.setup),
        model_(model),
        config_(config),
        beside_(beside),
        eval_batch_(eval_batch),
        ranks_(ranks_of_node(profile, training.setup.world)),
        play_({.session = training.setup.session,
               .device = eager::kernel_device(training.setup.session.compute_capability),
               .allocator = training.allocator,
               .memory = profile.memory,
               .outside = beside.outside}) {}

  std::vector<PhaseMemory> all() {
    try {
      set_up();
      train();
      SavedStates states = saved_states();
      evaluate();
      const bool saves = save();
      if (saves) states.whole = save_optimizer();
      if (saves && !setup_.loop.zero_redundancy) {
        Phases next(training_, model_, config_, profile_, beside_, eval_batch_);
        phases_.push_back(next.resumed(states));
      }
    } catch (const MemoryPlay::OutOfMemoryStop&) {
      end(current_, {}, false);
    }
    return std::move(phases_);
  }

 private:
  void begin(const char* phase) {
    current_ = phase;
    play_.begin();
  }

  void end(const char* phase, Bytes host, bool fits = true) {
    if (fits) play_.catch_up();
    const AllocatorStatistics& s = play_.allocator().statistics();
    phases_.push_back({.phase = phase,
                       .peak_allocated = {s.allocated_bytes.peak},
                       .peak_active = {s.active_bytes.peak},
                       .peak_reserved = {s.reserved_bytes.peak},
                       .allocated = {s.allocated_bytes.current},
                       .reserved = {s.reserved_bytes.current},
                       .host_per_node = host,
                       .fits = fits});
  }

  /// Straight to the device one weight at a time is on the host; otherwise every process of the
  /// node, or rank 0 alone, holds the model.
  Bytes host_of_load() const {
    const Model& base = setup_.fine_tuning ? *setup_.fine_tuning->base : model_;
    if (setup_.fine_tuning && setup_.fine_tuning->from_pretrained)
      return largest_parameter(base) * ranks_;
    if (setup_.made_on == eager::Device::cuda) return {};
    if (setup_.loads_from_rank_0) return parameter_bytes(base);
    return setup_.made_on == eager::Device::cpu ? parameter_bytes(base) * ranks_ : Bytes{};
  }

  /// Weights that are loaded may train as they are.
  bool adapts() const {
    const auto& tuning = setup_.fine_tuning;
    return tuning && (tuning->adapter || tuning->litgpt_adapter || tuning->litgpt_lora ||
                      tuning->quantization);
  }

  void set_up() {
    begin(setup_.fine_tuning ? "load" : "wrap");
    const Bytes host = host_of_load();
    run_ = std::make_unique<eager::TrainingRun>(
        play_.session(), model_, config_, setup_, [&](eager::SetupMoment moment) {
          switch (moment) {
            case eager::SetupMoment::loaded:
              end("load", host);
              return begin(adapts() ? "adapter" : "wrap");
            case eager::SetupMoment::adapted:
              if (!adapts()) return;
              end("adapter", {});
              return begin("wrap");
            case eager::SetupMoment::wrapped:
              return end("wrap", setup_.fine_tuning ? Bytes{} : host);
          }
        });
  }

  void train() {
    begin("train");
    for (int i = 0; i < 2; ++i)
      run_->loop().iteration([&](eager::Moment, int) { play_.catch_up(); });
  }

  void evaluate() {
    begin("evaluate");
    eager::set_training(run_->model().module(), false);
    std::optional<eager::Tensor> logits = eager::evaluate(play_.session(), *run_, eval_batch_);
    end("evaluate", beside_.host_per_node);
    logits.reset();
    eager::set_training(run_->model().module(), true);
  }

  const DeepSpeedSettings* zero() const {
    const auto* setup = std::get_if<eager::DeepSpeedSetup>(&setup_.runtime);
    return setup == nullptr ? nullptr : &setup->settings;
  }
  bool by_zero3() const { return zero() != nullptr && zero()->stage == 3; }
  bool by_fsdp1() const { return std::holds_alternative<eager::Fsdp1Setup>(setup_.runtime); }
  bool by_fsdp2() const { return std::holds_alternative<eager::Fsdp2Setup>(setup_.runtime); }
  bool by_fsdp() const { return by_fsdp1() || by_fsdp2(); }
  bool has_adapter() const { return setup_.fine_tuning && setup_.fine_tuning->adapter; }
  bool saves_shards() const { return by_fsdp() && setup_.saves_shards; }

  Bytes whole_state_on_host(bool trainable_only) {
    Bytes host;
    for (const auto& [name, tensor] : eager::whole_state_dict(
             play_.session(), *run_, {.cpu_offload = true, .trainable_only = trainable_only}))
      host += bytes_on_host(tensor);
    // FSDP1 moves a unit to the host, then makes copies of its parameters there.
    return host + run_->model().largest_unit(false);
  }

  /// Trainer.save_model; whether the library saves at all: what it refuses is no phase. Source:
  /// transformers 5.24 trainer.py; accelerate 1.15 accelerator.py, get_state_dict; deepspeed 0.19.8
  /// runtime/engine.py.
  bool save() try {
    if (saves_shards()) return true;  // only with the optimizer
    begin("save");
    Bytes host;
    if (has_adapter() && !by_fsdp() && zero() == nullptr) {
      // PeftModel.save_pretrained takes the adapter alone.
      for (const SafetensorsTensor& tensor : eager::adapter_tensors(play_.session(), *run_))
        host += bytes_of(tensor.elements(), tensor.dtype);
    } else if (by_zero3() && !has_adapter() && !zero()->gathers_on_save) {
      host = largest_state() * ranks_;  // save_checkpoint, as with the optimizer
    } else {
      host = whole_state_on_host(has_adapter() && by_zero3());
      // Every rank is asked for the state, which it clones.
      if (zero() != nullptr && zero()->stage < 3) host = host * ranks_;
    }
    end("save", beside_.host_per_node + host);
    return true;
  } catch (const Refusal&) {
    return false;
  }

  /// Trainer._save_optimizer_and_scheduler, which saves FSDP's model once more. What of the states
  /// was gathered.
  Bytes save_optimizer() try {
    begin("save_optimizer");
    Bytes host, states;
    eager::ParallelModel& model = run_->model();
    if (saves_shards()) {
      host = model.save_shards(play_.session(), run_->loop().optimizer(), has_adapter()) * ranks_;
    } else if (by_fsdp()) {
      host = whole_state_on_host(has_adapter() && by_fsdp2());
      if (const auto state =
              model.full_optimizer_state(play_.session(), run_->loop().optimizer(), true)) {
        for (const eager::Tensor& tensor : *state) states += bytes_on_host(tensor);
        host = std::max(host, states);
      }
    } else {
      // torch.save brings one tensor after the other to the host.
      host = zero() == nullptr ? largest_state() : largest_state() * ranks_;
    }
    end("save_optimizer", beside_.host_per_node + host);
    return states;
  } catch (const Refusal&) {
    return {};
  }

  bool uses_bitsandbytes() const { return setup_.loop.optimizer.bitsandbytes.has_value(); }

  /// What this rank's part of the optimizer's file is: states, and under ZeRO masters.
  eager::Tensors states_in_file() const {
    eager::Tensors tensors = run_->loop().optimizer_states();
    if (const eager::ModelEngine* engine = run_->model().engine()) {
      tensors.clear();
      for (const eager::HeldTensor& held : engine->held())
        if (held.category == MemoryCategory::optimizer_states) tensors.push_back(held.tensor);
    }
    return tensors;
  }

  Bytes largest_state() const {
    Bytes largest;
    for (const eager::Tensor& tensor : states_in_file())
      largest = std::max(largest, tensor.bytes());
    return largest;
  }

  SavedStates saved_states() const {
    SavedStates states;
    // FSDP1's optimizer has no states yet into which shards could be read: it begins anew.
    if (setup_.loop.zero_redundancy || (by_fsdp1() && saves_shards())) return states;
    for (const eager::Tensor& tensor : run_->loop().optimizer_states())
      states.tensors.push_back({tensor.sizes(), eager::like(tensor)});
    for (const eager::Tensor& tensor : states_in_file()) states.file += tensor.bytes();
    for (const Parameter& parameter : model_.parameters)
      if (parameter.trainable)
        states.largest_trained = std::max(states.largest_trained, parameter.elements());
    return states;
  }

  /// Another process that goes on from the checkpoint, before its first step.
  /// torch.load of the optimizer's file: on the host with one rank, on the device under DDP.
  /// bitsandbytes copies all of it first, and what was paged lies on the device from then on.
  /// FSDP2's states are made, and the loaded ones come beside them. FSDP1 deals out one unit after
  /// the other. Source: transformers 5.24 trainer.py, _load_optimizer_and_scheduler; accelerate
  /// 1.15 fsdp_utils.py, load_fsdp_optimizer; torch 2.15 optim/optimizer.py,
  /// distributed/checkpoint/state_dict.py, fsdp/_optim_utils.py; bitsandbytes 0.50
  /// optim/optimizer.py, Optimizer8bit.load_state_dict.
  PhaseMemory resumed(const SavedStates& states) {
    try {
      set_up();
      begin("resume");
      eager::Session& s = play_.session();
      run_->model().load_state(s, saves_shards(), has_adapter());
      const bool on_device = setup_.world > 1;
      const bool as_they_lie = by_fsdp() || zero() != nullptr;
      const int copies = uses_bitsandbytes() || by_fsdp2() ? 2 : 1;
      eager::Tensor whole = one_state_whole(states);
      std::vector<eager::Tensors> held(static_cast<std::size_t>(on_device ? copies : 1));
      for (eager::Tensors& copy : held) {
        for (const SavedState& state : states.tensors)
          if ((on_device || !state.sizes.empty()) &&
              !(as_they_lie && state.kind.device == eager::Device::cpu))
            copy.push_back(eager::empty(s, state.sizes, {state.kind.dtype, s.settings.device}));
        whole.reset();
      }
      held.erase(held.begin(), held.end() - 1);
      end("resume", beside_.host_per_node + host_of_resume(states, copies));
    } catch (const MemoryPlay::OutOfMemoryStop&) {
      end("resume", {}, false);
    }
    return phases_.back();
  }

  /// One of the optimizer's states, which FSDP has on the device while it deals it out.
  eager::Tensor one_state_whole(const SavedStates& states) {
    if (!by_fsdp() || saves_shards() || states.tensors.empty()) return {};
    const Bytes bytes = by_fsdp1() ? run_->model().largest_unit(true)
                                   : bytes_of(states.largest_trained, Dtype::float32);
    eager::Session& s = play_.session();
    return eager::empty(s, {bytes.count}, {Dtype::uint8, s.settings.device});
  }

  Bytes host_of_resume(const SavedStates& states, int copies) const {
    const Bytes model = parameter_bytes(model_);
    if (setup_.world == 1) return states.file * copies;
    if (zero() != nullptr || saves_shards()) return states.file * ranks_;
    // Each rank reads the model's file.
    if (by_fsdp1()) return std::max(model * ranks_, states.whole);
    if (by_fsdp2()) return states.whole + states.file * ranks_;
    Bytes largest;  // map_location is the device
    for (const SavedState& state : states.tensors)
      largest = std::max(largest, bytes_of(state.sizes.product(), state.kind.dtype));
    return has_adapter() ? largest * ranks_ : std::max(model, largest) * ranks_;
  }

  const PytorchTraining& training_;
  const HardwareProfile& profile_;
  const eager::TrainingSetup& setup_;
  const Model& model_;
  const JsonValue& config_;
  HeldBeside beside_;
  std::int64_t eval_batch_;
  int ranks_;
  MemoryPlay play_;
  std::unique_ptr<eager::TrainingRun> run_;
  std::vector<PhaseMemory> phases_;
  const char* current_ = "load";
};

}  // namespace

std::vector<PhaseMemory> phases_of(const PytorchTraining& training, const Model& model,
                                   const JsonValue& config, const HardwareProfile& profile,
                                   const HeldBeside& beside, std::int64_t eval_batch) {
  return Phases(training, model, config, profile, beside, eval_batch).all();
}

}  // namespace shardscope::planner
