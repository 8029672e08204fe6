#include "gui/data/what_if_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/schedule/strategy.h"
#include "gui/data/machine_words.h"
#include "sim/planner/enumerate.h"

namespace shardscope::gui {
namespace {

using planner::Choice;
using planner::Prefetch;
using S = ShardingStrategy;

template <class Value>
bool contains(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

S nearest_sharding(Runtime runtime, S sharding) {
  const bool keeps_whole = sharding == S::no_shard || sharding == S::zero1;
  switch (runtime) {
    case Runtime::ddp:
      return S::no_shard;
    case Runtime::fsdp1:
      return sharding == S::zero1 ? S::shard_grad_op : sharding;
    case Runtime::fsdp2:
      return keeps_whole ? S::full_shard : sharding;
    case Runtime::native:
      return sharding;
    case Runtime::deepspeed:
      return sharding == S::hybrid_shard_zero2 ? S::hybrid_shard : sharding;
  }
  return sharding;
}

/// Ranks beside each of the mesh: of an axis tensor, and of torchtitan's axes.
int ranks_inside(const Choice& choice) { return world_of(choice) / choice.mesh.world(); }

void leave_axes_inside(Choice& choice) {
  choice.tensor = 1;
  if (choice.torchtitan) choice.torchtitan->context = choice.torchtitan->tensor = 1;
}

/// The model's own fsdp_plan frees what was gathered after the forward.
bool goes_beside_tensor(S sharding) {
  return sharding == S::full_shard || sharding == S::hybrid_shard;
}

/// As --mesh takes it.
std::string tensor_mesh_text(const Choice& choice) {
  std::string text = fmt::format("tensor={},shard={}", choice.tensor, choice.mesh.shard);
  if (choice.mesh.replicate > 1) text += fmt::format(",replicate={}", choice.mesh.replicate);
  return text;
}

/// What `train` can run of what PyTorch can.
void fit_to_native(Choice& choice) {
  if (choice.precision == TrainingPrecision::fp16_mixed)
    choice.precision = TrainingPrecision::bf16_mixed;
  const bool shards_parameters =
      choice.sharding == S::full_shard || choice.sharding == S::hybrid_shard;
  if (choice.offload == Offload::all && !shards_parameters) choice.offload = Offload::optimizer;
}

class CommandWriter {
 public:
  CommandWriter(const WhatIfSettings& settings, const CommandPlace& place)
      : settings_(settings), choice_(settings.choice), place_(place) {}

  SimulateCommand write() {
    line_.arguments = {"shardscope", "simulate"};
    add("--job", place_.job.string());
    if (is_said_by_job())
      add_what_differs();
    else
      add_all();
    const bool by_name = !settings_.cluster.empty() && settings_.scales == MachineScales{};
    add("--cluster", by_name ? settings_.cluster : place_.hardware.string());
    return std::move(line_);
  }

 private:
  void add(std::string_view option, std::string value) {
    line_.arguments.emplace_back(option);
    line_.arguments.push_back(std::move(value));
  }
  void leave(std::string what) { line_.unsaid.push_back(std::move(what)); }

  /// Whether sizes alone differ from the run's job, or checkpointing where no file says it.
  bool is_said_by_job() const {
    if (place_.own == nullptr) return false;
    const Choice& own = place_.own->choice;
    Choice choice = choice_;
    choice.batch = own.batch;
    choice.micro_batches = own.micro_batches;
    if (!place_.is_of_file) choice.checkpointing = own.checkpointing;
    return choice == own;
  }

  void add_what_differs() {
    const Choice& own = place_.own->choice;
    if (choice_.checkpointing != own.checkpointing)
      add("--checkpointing", planner::text_of(choice_.checkpointing));
    if (choice_.batch != own.batch) add("--batch", std::to_string(choice_.batch));
    if (settings_.length != place_.own->length) add("--seq", std::to_string(settings_.length));
    if (choice_.micro_batches != own.micro_batches)
      add("--accumulate", std::to_string(choice_.micro_batches));
  }

  void add_all() {
    if (choice_.runtime == Runtime::native)
      add_native();
    else
      add_pytorch();
    if (place_.is_of_file && choice_.runtime != Runtime::native)
      leave("what accelerate prepares: accelerate's or DeepSpeed's file");
    add("--batch", std::to_string(choice_.batch));
    add("--seq", std::to_string(settings_.length));
    add("--accumulate", std::to_string(choice_.micro_batches));
  }

  void add_place() {
    add("--strategy", std::string(name_of(choice_.sharding)));
    if (choice_.tensor > 1)
      add("--mesh", tensor_mesh_text(choice_));
    else if (is_hybrid(choice_.sharding))
      add("--mesh", text_of(choice_.mesh));
    add("--world", std::to_string(world_of(choice_)));
  }

  void add_native() {
    const Strategy strategy = planner::native_strategy(choice_, place_.model);
    add("--runtime", "native");
    add_place();
    add("--wrap", text_of(strategy.wrap));
    add("--prefetch", text_of(strategy.prefetch));
    add("--checkpointing", text_of(strategy.checkpointing));
    add("--precision", std::string(name_of(strategy.precision)));
    if (strategy.offload != Offload::none) add("--offload", std::string(name_of(strategy.offload)));
    if (strategy.reduce_every_micro_batch != place_.run_job.strategy.reduce_every_micro_batch)
      leave(fmt::format("\"reduce_every_micro_batch\": {} in the job",
                        strategy.reduce_every_micro_batch));
  }

  void add_units() {
    if (choice_.blocks_per_unit == 0) add("--wrap", "none");
    if (choice_.blocks_per_unit > 1)
      leave(fmt::format("units of {} blocks: --wrap units:FILE", choice_.blocks_per_unit));
  }

  void add_pytorch() {
    add("--runtime", std::string(name_of(choice_.runtime)));
    add_place();
    add("--precision", std::string(name_of(choice_.precision)));
    if (choice_.checkpointing.every > 0)
      add("--checkpointing", planner::text_of(choice_.checkpointing));
    if (choice_.tensor == 1) add_units();
    const bool zero = choice_.runtime == Runtime::deepspeed;
    if (zero && choice_.prefetch != planner::usual_prefetch(choice_.runtime, choice_.sharding))
      leave("overlap_comm and the prefetch bucket: DeepSpeed's file");
    const Prefetch usual =
        planner::prefetches_of(choice_.runtime, S::full_shard, choice_.blocks_per_unit).front();
    if (choice_.prefetch != usual && !zero)
      leave(fmt::format("prefetch {}: accelerate's file", planner::name_of(choice_.prefetch)));
    if (choice_.offload != Offload::none)
      leave(fmt::format("offload {}: accelerate's or DeepSpeed's file", name_of(choice_.offload)));
    if (choice_.micro_batches > 1 && !choice_.reduces_every_micro_batch && !zero)
      leave("gradients reduced once: accelerate's file");
  }

  const WhatIfSettings& settings_;
  const Choice& choice_;
  const CommandPlace& place_;
  SimulateCommand line_;
};

/// As a POSIX shell takes it for one word.
std::string in_quotes(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string label_of(const WhatIfSettings& settings) {
  const std::string strategy = planner::strategy_text(settings.choice);
  std::string text = fmt::format("{} x{}{}", strategy, world_of(settings.choice),
                                 planner::text_of(settings.choice).substr(strategy.size()));
  const std::string scales = scales_text(settings.scales);
  if (!settings.cluster.empty() || !scales.empty())
    text += fmt::format("; {}{}{}", settings.cluster,
                        settings.cluster.empty() || scales.empty() ? "" : ", ", scales);
  return text;
}

Choice under(Choice choice, Runtime runtime) {
  choice.runtime = runtime;
  if (runtime != Runtime::fsdp2) {
    const int world = world_of(choice);
    leave_axes_inside(choice);
    choice.torchtitan.reset();
    choice = on_ranks(choice, world);
  }
  choice = with_sharding(choice, nearest_sharding(runtime, choice.sharding));
  const auto prefetches = planner::prefetches_of(runtime, choice.sharding, choice.blocks_per_unit);
  if (!contains(prefetches, choice.prefetch)) choice.prefetch = prefetches.front();
  if (runtime == Runtime::native) fit_to_native(choice);
  if (runtime == Runtime::ddp) choice.offload = Offload::none;
  return choice;
}

Choice on_ranks(Choice choice, int world) {
  if (world % ranks_inside(choice) != 0) leave_axes_inside(choice);
  const int ranks = world / ranks_inside(choice);
  const std::vector<Mesh> meshes = planner::meshes_of(choice.sharding, ranks);
  const auto same = std::find_if(meshes.begin(), meshes.end(),
                                 [&](const Mesh& mesh) { return mesh.shard == choice.mesh.shard; });
  if (same != meshes.end())
    choice.mesh = *same;
  else
    choice.mesh = meshes.empty() ? Mesh{.shard = ranks} : meshes.back();
  return choice;
}

Choice with_sharding(Choice choice, ShardingStrategy sharding) {
  const int world = world_of(choice);
  choice.sharding = sharding;
  if (!goes_beside_tensor(sharding)) choice.tensor = 1;
  return on_ranks(choice, world);
}

std::string SimulateCommand::text() const {
  std::vector<std::string> words;
  for (const std::string& argument : arguments) words.push_back(in_quotes(argument));
  return fmt::format("{}", fmt::join(words, " "));
}

SimulateCommand simulate_command(const WhatIfSettings& settings, const CommandPlace& place) {
  return CommandWriter(settings, place).write();
}

}  // namespace shardscope::gui
