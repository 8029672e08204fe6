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

class Phases {
 public:
  Phases(const PytorchTraining& training, const Model& model, const JsonValue& config,
         const HardwareProfile& profile, std::int64_t eval_batch)
      : training_(training),
        profile_(profile),
        setup_(training.setup),
        model_(model),
        config_(config),
        eval_batch_(eval_batch),
        ranks_(ranks_of_node(profile, training.setup.world)),
        play_({.session = training.setup.session,
               .device = eager::kernel_device(training.setup.session.compute_capability),
               .allocator = training.allocator,
               .memory = profile.memory}) {}

  std::vector<PhaseMemory> all() {
    try {
      set_up();
      train();
      const std::vector<SavedState> states = saved_states();
      evaluate();
      if (save()) save_optimizer();
      if (!states.empty()) {
        Phases next(training_, model_, config_, profile_, eval_batch_);
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
    end("evaluate", {});
    logits.reset();
    eager::set_training(run_->model().module(), true);
  }

  /// 0: no DeepSpeed.
  int zero_stage() const {
    const auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup_.runtime);
    return zero == nullptr ? 0 : zero->settings.stage;
  }

  /// Whether the library saves the model: what it refuses is no phase.
  bool save() try {
    begin("save");
    const bool adapter = setup_.fine_tuning && setup_.fine_tuning->adapter;
    const bool gathers = std::holds_alternative<eager::Fsdp1Setup>(setup_.runtime) ||
                         std::holds_alternative<eager::Fsdp2Setup>(setup_.runtime) ||
                         zero_stage() > 0;
    Bytes host;
    if (adapter && !gathers) {
      // PeftModel.save_pretrained takes the adapter alone.
      for (const SafetensorsTensor& tensor : eager::adapter_tensors(play_.session(), *run_))
        host += bytes_of(tensor.elements(), tensor.dtype);
    } else {
      // What is sharded is gathered whole before. Under FSDP1 PEFT takes the adapter out of the
      // whole model's state. Source: accelerate 1.15 fsdp_utils.py, _get_model_state_dict.
      const bool drops_frozen =
          adapter &&
          (std::holds_alternative<eager::Fsdp2Setup>(setup_.runtime) || zero_stage() == 3);
      for (const auto& [name, tensor] : eager::full_state_dict(
               play_.session(), *run_, {.cpu_offload = true, .trainable_only = drops_frozen}))
        host += bytes_on_host(tensor);
      // Trainer.save_model asks every rank for the state, which it clones.
      if (zero_stage() == 1 || zero_stage() == 2) host = host * ranks_;
    }
    end("save", host);
    return true;
  } catch (const Refusal&) {
    return false;
  }

  /// What save_fsdp_optimizer gathers for FULL_STATE_DICT. Source: accelerate 1.15 fsdp_utils.py.
  void save_optimizer() try {
    begin("save_optimizer");
    const std::optional<eager::Tensors> state =
        run_->model().full_optimizer_state(play_.session(), run_->loop().optimizer(), true);
    if (!state) return;
    Bytes host;
    for (const eager::Tensor& tensor : *state) host += bytes_on_host(tensor);
    end("save_optimizer", host);
  } catch (const Refusal&) {
  }

  bool uses_bitsandbytes() const { return setup_.loop.optimizer.bitsandbytes.has_value(); }

  /// What optimizer.pt holds; nothing where every rank keeps a part, which is gathered and dealt
  /// out again in other ways.
  std::vector<SavedState> saved_states() const {
    const bool whole = std::holds_alternative<eager::PlainSetup>(setup_.runtime) ||
                       std::holds_alternative<eager::ddp::Options>(setup_.runtime);
    std::vector<SavedState> states;
    if (!whole || setup_.loop.zero_redundancy) return states;
    for (const eager::Tensor& tensor : run_->loop().optimizer_states())
      states.push_back({tensor.sizes(), eager::like(tensor)});
    return states;
  }

  /// Another process that goes on from the checkpoint: torch.load of the optimizer's file, on the
  /// host with one rank and on the device with several, and load_state_dict, before the first step.
  /// bitsandbytes copies all of it first, and what was paged lies on the device from then on.
  /// Source: transformers 5.24 trainer.py, _load_optimizer_and_scheduler; torch 2.15
  /// optim/optimizer.py; bitsandbytes 0.50 optim/optimizer.py, Optimizer8bit.load_state_dict.
  PhaseMemory resumed(const std::vector<SavedState>& states) {
    try {
      set_up();
      begin("resume");
      const bool on_device = setup_.world > 1;
      Bytes whole, largest;
      for (const SavedState& state : states) {
        const Bytes bytes = bytes_of(state.sizes.product(), state.kind.dtype);
        whole += bytes;
        largest = std::max(largest, bytes);
      }
      const int copies = uses_bitsandbytes() ? 2 : 1;
      std::vector<eager::Tensors> held(static_cast<std::size_t>(on_device ? copies : 1));
      for (eager::Tensors& copy : held)
        for (const SavedState& state : states)
          if (on_device || !state.sizes.empty())
            copy.push_back(eager::empty(play_.session(), state.sizes,
                                        {state.kind.dtype, play_.session().settings.device}));
      held.erase(held.begin(), held.end() - 1);
      end("resume", on_device ? largest * ranks_ : whole * copies);
    } catch (const MemoryPlay::OutOfMemoryStop&) {
      end("resume", {}, false);
    }
    return phases_.back();
  }

  const PytorchTraining& training_;
  const HardwareProfile& profile_;
  const eager::TrainingSetup& setup_;
  const Model& model_;
  const JsonValue& config_;
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
                                   std::int64_t eval_batch) {
  return Phases(training, model, config, profile, eval_batch).all();
}

}  // namespace shardscope::planner
