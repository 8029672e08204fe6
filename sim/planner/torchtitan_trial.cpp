#include "sim/planner/torchtitan_trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "core/base/in_background.h"
#include "core/native/pipeline_stages.h"
#include "core/pipeline/compute_order.h"
#include "sim/engine/rehearse.h"
#include "sim/planner/estimate.h"
#include "sim/planner/first_step_listener.h"
#include "sim/planner/pipeline_bounds.h"
#include "sim/planner/second_step.h"
#include "sim/planner/stopped_recording.h"
#include "sim/planner/torchtitan_estimate.h"
#include "sim/planner/torchtitan_pipeline.h"
#include "sim/prediction/outside_memory.h"

namespace shardscope::planner {
namespace {

/// The second step is the one that repeats.
constexpr std::array soon{"1", "steady"};

/// The schedules of all ranks with so many micro-batches.
class RecordedRanks {
 public:
  RecordedRanks(Choice choice, int micro_batches, const TrialInputs& inputs, std::stop_token stop)
      : pipeline_(torchtitan_pipeline(with(std::move(choice), micro_batches), inputs)),
        schedules_(static_cast<std::size_t>(pipeline_.settings.mesh.front().size)),
        stop_(std::move(stop)) {}

  const TorchtitanPipeline& pipeline() const { return pipeline_; }
  /// `listener`, if any, may end it by throwing.
  const Schedule& record(int rank, eager::ProgramListener* listener = nullptr) {
    Schedule& schedule = schedules_[static_cast<std::size_t>(rank)];
    schedule =
        schedule_of_rank(pipeline_, rank, {.steps = soon, .stop = stop_, .listener = listener});
    return schedule;
  }
  /// Of one that is recorded.
  const Schedule& recorded(int rank) const { return schedules_[static_cast<std::size_t>(rank)]; }
  /// Those that are not recorded yet.
  void record_others() {
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank)
      if (schedules_[rank].steps.empty()) record(static_cast<int>(rank));
  }
  /// Of ranks that are all recorded.
  Duration step(const HardwareProfile& profile) const {
    return step_of_recorded_pipeline(schedules_, profile);
  }

 private:
  static Choice with(Choice choice, int micro_batches) {
    choice.micro_batches = micro_batches;
    return choice;
  }
  TorchtitanPipeline pipeline_;
  std::vector<Schedule> schedules_;
  std::stop_token stop_;
};

/// The least that it needs.
Bytes bounded_memory(const Choice& choice, const TrialInputs& inputs) {
  PipelineBounds bounds(inputs);
  bounds.add({&choice, 1}, 1, {});
  return bounds.of(choice).memory;
}

/// Whether tensors leave the allocator so much of the device that it need not be played.
bool is_roomy(Bytes needed, const TrialInputs& inputs) {
  const Bytes memory = inputs.profile.memory;
  return memory == Bytes{} || needed <= Bytes{memory.count / 4 * 3};
}

/// What the allocator holds of a rank's schedule, where that does not fit the device.
std::optional<Bytes> held_beyond_memory(const Schedule& schedule, Bytes outside,
                                        const TrialInputs& inputs) {
  const Bytes memory = inputs.profile.memory;
  const AllocatorChoice allocator{.settings = inputs.allocator,
                                  .memory = DeviceCapacity{.total = memory, .outside = outside}};
  const Rehearsal rehearsal = rehearse(schedule, inputs.profile, allocator);
  const bool fits =
      !rehearsal.out_of_memory && rehearsal.reserved + outside + inputs.margin <= memory;
  return fits ? std::nullopt : std::optional(rehearsal.reserved);
}

/// What a part of a run holds that does not fit the device: the whole does not fit, either.
struct DoesNotFit {
  RankMemory memory;
};

/// Throws DoesNotFit.
void refuse_beyond_memory(const Schedule& schedule, const TrialInputs& inputs) {
  const Bytes outside = outside_bytes(schedule, inputs.profile);
  if (const auto held = held_beyond_memory(schedule, outside, inputs))
    throw DoesNotFit{{.allocated = *held, .outside = outside, .beyond = held}};
}

/// Plays what there is of a first step each time when so many of its forwards and backwards have
/// begun. Throws DoesNotFit out of the recording.
class EarlyListener final : public eager::ProgramListener {
 public:
  /// `other`, if any, is told all, too.
  EarlyListener(std::vector<int> moments, int world, const TrialInputs& inputs,
                eager::ProgramListener* other = nullptr)
      : moments_(std::move(moments)), world_(world), inputs_(inputs), other_(other) {}

  void on_program(const Schedule& so_far) override {
    if (so_far.steps.size() == 1) in_first_step(so_far);
    if (other_ != nullptr) other_->on_program(so_far);
  }

 private:
  void in_first_step(const Schedule& so_far) {
    if (std::ranges::find(moments_, begun_++) == moments_.end()) return;
    Schedule part = so_far;
    part.world = world_;
    Step& step = part.steps.front();
    step.actions.end = static_cast<std::uint32_t>(part.program.actions.size());
    step.operations.end = static_cast<std::uint32_t>(part.operations.size());
    refuse_beyond_memory(part, inputs_);
  }

  std::vector<int> moments_;
  int begun_ = 0;
  int world_;
  const TrialInputs& inputs_;
  eager::ProgramListener* other_;
};

/// Where most that do not fit say so: behind the first backward, when a rank has as many
/// micro-batches under way as it will have and the first gradients, and a quarter of all it does.
std::vector<int> early_moments(const TorchtitanPipeline& pipeline, int rank) {
  constexpr int behind = 3;
  const ActionOrder order = compute_orders(
      eager::parallel::pipeline_setup_of(pipeline.settings))[static_cast<std::size_t>(rank)];
  int actions = 0, first_backward = 0;
  for (const ActionSlot& slot : order)
    for (const Action& action : slot.actions()) {
      if (first_backward == 0 && is_input_backward(action.kind)) first_backward = actions;
      ++actions;
    }
  return {first_backward + behind, actions / 4};
}

/// What the first step has alone, where two numbers of micro-batches say the same.
std::optional<FirstStepAlone> alone_with_any_number(const Schedule& few, const Schedule& most) {
  const std::optional<FirstStepAlone> alone = first_step_alone(most);
  return alone && first_step_alone(few) == alone ? alone : std::nullopt;
}

class TorchtitanTrial {
 public:
  TorchtitanTrial(const Choice& choice, const TrialInputs& inputs, const std::stop_token& stop)
      : choice_(choice),
        inputs_(inputs),
        stop_(stop),
        cut_(few_micro_batches(choice)),
        most_(choice, is_cut() ? cut_.few + cut_.unit : choice.micro_batches, inputs, stop),
        few_(choice, is_cut() ? cut_.few : choice.micro_batches, inputs, stop) {
    // What grows with the micro-batches may be the most of many alone: the last stage's outputs.
    if (is_cut()) least_ = bounded_memory(choice, inputs);
  }

  Trial run() {
    const Bytes memory = inputs_.profile.memory;
    const std::vector<RankNeed> ranks = order_of_ranks();
    Trial trial;
    for (const RankNeed& of : ranks) {
      const RankMemory rank = known_memory(of, of.rank == ranks.front().rank);
      const Bytes allocated =
          std::max({rank.allocated, least_ - rank.outside, rank.beyond.value_or(Bytes{})});
      if (allocated + rank.outside > trial.needed()) {
        trial.allocated = allocated;
        trial.outside = rank.outside;
      }
      trial.is_part = rank.beyond || (memory > Bytes{} && trial.needed() + inputs_.margin > memory);
      if (trial.is_part) return trial;
    }
    trial.time.span = step();
    return trial;
  }

 private:
  bool is_cut() const { return cut_.unit > 0; }

  std::int64_t extended(std::int64_t at_few, std::int64_t at_most) const {
    if (!is_cut()) return at_most;
    const std::int64_t further = (choice_.micro_batches - cut_.few - cut_.unit) / cut_.unit;
    return at_most + std::max<std::int64_t>(0, at_most - at_few) * further;
  }

  Duration step() {
    std::future<void> of_few = in_background(WorthAThread{is_cut()}, [&] {
      if (is_cut()) few_.record_others();
    });
    most_.record_others();
    of_few.get();
    const Duration at_most = most_.step(inputs_.profile);
    return is_cut() ? Duration{extended(few_.step(inputs_.profile).ns, at_most.ns)} : at_most;
  }

  /// The rank that is expected to need most memory comes first, where stages were probed.
  std::vector<RankNeed> order_of_ranks() const {
    if (choice_.torchtitan && inputs_.findings != nullptr && inputs_.profile.memory > Bytes{})
      return neediest_first(choice_, inputs_, stop_);
    std::vector<RankNeed> ranks(static_cast<std::size_t>(choice_.mesh.pipeline));
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].rank = static_cast<int>(i);
    return ranks;
  }

  RankMemory known_memory(const RankNeed& of, bool is_first) {
    const auto make = [&] { return memory_of(of, is_first); };
    return inputs_.findings == nullptr ? make()
                                       : inputs_.findings->ranks().of(key_of(of, is_first), make);
  }

  /// All that the memory of a rank follows from: of the layers those of its own stages.
  std::string key_of(const RankNeed& of, bool is_first) const {
    Choice common = choice_;
    common.pipeline.layers.clear();
    common.pipeline.balance = StageBalance::layers;
    const PipelineSetup setup = setup_of(choice_);
    const std::vector<int> layers =
        blocks_of_stages(inputs_.model, choice_.pipeline, setup.stages(), "--pipeline-stages");
    const std::vector<int> rank_of_stage = rank_of_stages(setup);
    std::vector<int> own;
    for (std::size_t stage = 0; stage < layers.size(); ++stage)
      if (rank_of_stage[stage] == of.rank) own.push_back(layers[stage]);
    return fmt::format("{}; {}; {}: {}; {} {} {}; {} {}", text_of(common), mesh_text(common),
                       of.rank, fmt::join(own, ","), is_first, is_roomy(least_, inputs_),
                       is_roomy(of.memory, inputs_), inputs_.profile.memory.count,
                       inputs_.margin.count);
  }

  RankMemory memory_of(const RankNeed& of, bool is_first) {
    try {
      return whole_memory_of(of, is_first);
    } catch (const DoesNotFit& stopped) {
      return stopped.memory;
    }
  }

  /// Of many micro-batches, outputs of all of them lie between what is freed: the first rank is
  /// played with all of them. Throws DoesNotFit.
  RankMemory whole_memory_of(const RankNeed& of, bool is_first) {
    const bool plays_all = is_cut() && is_first;
    // Compiled code is known when all is recorded.
    const bool is_eager = most_.pipeline().compiled == CompileScope::none;
    std::optional<Schedule> first_step;  // with all of them
    if (plays_all && is_eager && !is_roomy(of.memory, inputs_))
      first_step = first_step_of_all(of.rank);
    RankMemory result = record_few(of, is_eager && !first_step);
    if (is_roomy(std::max(result.allocated + result.outside, least_), inputs_)) return result;
    const Schedule& most = most_.recorded(of.rank);
    result.beyond = held_beyond_memory(most, result.outside, inputs_);
    if (result.beyond || !plays_all) return result;
    const auto alone =
        is_eager ? alone_with_any_number(few_.recorded(of.rank), most) : std::nullopt;
    if (alone && !first_step) first_step = first_step_of_all(of.rank);
    if (!alone || !add_second_step(*alone, *first_step))
      first_step = both_steps_of_all(of.rank, is_eager);
    result.beyond = held_beyond_memory(*first_step, result.outside, inputs_);
    return result;
  }

  /// With few micro-batches and one unit more. The first step is played where it is asked for, and
  /// may throw DoesNotFit.
  RankMemory record_few(const RankNeed& of, bool plays_first_step) {
    const TorchtitanPipeline& pipeline = most_.pipeline();
    std::future<Bytes> of_few;
    const auto begin_few = [&] {
      of_few = in_background(WorthAThread{is_cut()},
                             [&] { return allocated_peak(few_.record(of.rank)); });
    };
    FirstStepListener first([&](Schedule step) {
      step.world = pipeline.place.world;
      const Bytes needed = allocated_peak(step) + outside_bytes(step, inputs_.profile);
      if (!is_roomy(needed, inputs_)) refuse_beyond_memory(step, inputs_);
      begin_few();
    });
    const bool plays_early = plays_first_step && !is_roomy(of.memory, inputs_);
    EarlyListener early(plays_early ? early_moments(pipeline, of.rank) : std::vector<int>(),
                        pipeline.place.world, inputs_, &first);
    if (!plays_first_step) begin_few();
    const Schedule& most = most_.record(of.rank, plays_first_step ? &early : nullptr);
    RankMemory result{.allocated = allocated_peak(most),
                      .outside = outside_bytes(most, inputs_.profile),
                      .beyond = {}};
    if (is_cut()) result.allocated.count = extended(of_few.get().count, result.allocated.count);
    return result;
  }

  /// Throws DoesNotFit.
  Schedule first_step_of_all(int rank) const {
    static constexpr std::array first{"1"};
    const TorchtitanPipeline pipeline = torchtitan_pipeline(choice_, inputs_);
    EarlyListener early(early_moments(pipeline, rank), pipeline.place.world, inputs_);
    Schedule step =
        schedule_of_rank(pipeline, rank, {.steps = first, .stop = stop_, .listener = &early});
    refuse_beyond_memory(step, inputs_);
    refuse_if_stopped(stop_);
    return step;
  }

  /// Throws DoesNotFit.
  Schedule both_steps_of_all(int rank, bool plays_first_step) const {
    const TorchtitanPipeline pipeline = torchtitan_pipeline(choice_, inputs_);
    FirstStepListener first([&](Schedule step) {
      step.world = pipeline.place.world;
      refuse_beyond_memory(step, inputs_);
    });
    return schedule_of_rank(
        pipeline, rank,
        {.steps = soon, .stop = stop_, .listener = plays_first_step ? &first : nullptr});
  }

  const Choice& choice_;
  const TrialInputs& inputs_;
  const std::stop_token& stop_;
  FewMicroBatches cut_;
  RecordedRanks most_, few_;
  Bytes least_;
};

}  // namespace

FewMicroBatches few_micro_batches(const Choice& choice) {
  constexpr int worth = 6;
  const bool by_stages = is_v_shaped(choice.pipeline.schedule);
  const int unit = choice.mesh.pipeline * (by_stages ? choice.pipeline.stages_per_rank : 1);
  if (!choice.torchtitan || choice.micro_batches < worth * unit || choice.micro_batches % unit != 0)
    return {};
  return {.few = 2 * unit, .unit = unit};
}

Trial try_torchtitan(const Choice& choice, const TrialInputs& inputs, const std::stop_token& stop) {
  return TorchtitanTrial(choice, inputs, stop).run();
}

}  // namespace shardscope::planner
