#include "sim/planner/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/pytorch/runtimes/training/requested_setup.h"
#include "sim/planner/torchtitan_estimate.h"

namespace shardscope::planner {
namespace {

std::int64_t elements_of(const Model& model) {
  std::int64_t sum = 0;
  for (const Parameter& parameter : model.parameters) sum += parameter.elements();
  return sum;
}

/// Of DeepSpeed: so many blocks apart that the blocks between fill a bucket of gradients. What a
/// bucket adds is then in the difference of the two.
std::optional<Depths> depths_of_buckets(const ShallowModels& models, int period) {
  constexpr int apart = 4;
  const auto depths = depths_of(models.blocks(), std::lcm(period, apart));
  if (!depths) return std::nullopt;
  const std::int64_t between =
      elements_of(models.with(depths->more).model) - elements_of(models.with(depths->few).model);
  return between < DeepSpeedSettings{}.reduce_bucket_elements ? std::nullopt : depths;
}

template <class Combine>
Trial combined(const Trial& a, const Trial& b, const Combine& combine) {
  const auto part = [&](Duration Accounting::*member) {
    return Duration{combine((a.time.*member).ns, (b.time.*member).ns)};
  };
  Trial result{.time = {.span = part(&Accounting::span),
                        .compute = part(&Accounting::compute),
                        .exposed_communication = part(&Accounting::exposed_communication),
                        .exposed_copy = part(&Accounting::exposed_copy),
                        .idle = part(&Accounting::idle),
                        .communication = part(&Accounting::communication),
                        .overlap = part(&Accounting::overlap)},
               .allocated = {combine(a.allocated.count, b.allocated.count)},
               .outside = b.outside};
  return result;
}

/// Trials of the model with fewer blocks, each done once.
class ShallowTrials {
 public:
  ShallowTrials(const TrialInputs& inputs, const std::stop_token& stop)
      : inputs_(inputs), stop_(stop) {}

  Trial of(const Choice& choice, int blocks) const {
    if (const auto known = inputs_.findings->trial(choice, blocks)) return *known;
    const Trial trial = try_out(choice, with_blocks(inputs_, blocks), stop_);
    inputs_.findings->keep(choice, trial, blocks);
    return trial;
  }

  Trial extended(const Choice& choice, const Depths& depths, int blocks) const {
    return combined(
        of(choice, depths.few), of(choice, depths.more),
        [&](std::int64_t few, std::int64_t more) { return depths.extended(few, more, blocks); });
  }

 private:
  const TrialInputs& inputs_;
  const std::stop_token& stop_;
};

}  // namespace

double estimate_slack(const Choice& choice, const Training& training) {
  if (is_rough(choice)) return 0;
  if (training.fine_tuning) return 0.05;
  return choice.runtime == Runtime::deepspeed ? 0.02 : 0.005;
}

std::string Findings::key_of(const Choice& choice, int blocks) {
  return fmt::format("{}; {}; {}", text_of(choice), mesh_text(choice), blocks);
}

std::optional<Schedule> Findings::take_recording(const Choice& choice) {
  const std::scoped_lock lock(mutex_);
  const auto kept = std::ranges::find(recordings_, key_of(choice, 0), &KeptRecording::key);
  if (kept == recordings_.end()) return std::nullopt;
  std::optional<Schedule> schedule = std::move(kept->schedule);
  recordings_.erase(kept);
  return schedule;
}

void Findings::keep_recording(const Choice& choice, Schedule schedule) {
  const std::scoped_lock lock(mutex_);
  const std::string key = key_of(choice, 0);
  std::erase_if(recordings_, [&](const KeptRecording& kept) { return kept.key == key; });
  recordings_.push_back({key, std::move(schedule)});
  std::size_t rows = 0;
  for (const KeptRecording& kept : recordings_) rows += kept.schedule.program.actions.size();
  while (rows > most_kept_rows && recordings_.size() > 1) {
    rows -= recordings_.front().schedule.program.actions.size();
    recordings_.pop_front();
  }
}

TrialInputs with_blocks(const TrialInputs& inputs, int blocks) {
  const ShallowModels::Cut& cut = inputs.findings->shallow().with(blocks);
  return {.model = cut.model,
          .config = cut.config,
          .training = inputs.training.fine_tuning ? cut.training : inputs.training,
          .profile = inputs.profile,
          .costs = inputs.costs,
          .native_target = inputs.native_target,
          .allocator = inputs.allocator,
          .margin = inputs.margin,
          .recordings = &inputs.findings->of_meshes(),
          .uncut = &inputs.model,
          .blocks = blocks};
}

std::optional<Trial> estimated(const Choice& choice, const TrialInputs& inputs,
                               const std::stop_token& stop, int periods) {
  if (is_rough(choice)) return estimated_pipeline(choice, inputs, stop);
  if (inputs.findings == nullptr || choice.runtime == Runtime::native || is_pipelined(choice))
    return std::nullopt;
  const int blocks = inputs.findings->shallow().blocks();
  if (blocks == 0) return std::nullopt;
  // What FSDP1 keeps of one unit is highest at other places in few blocks than in many.
  if (choice.blocks_per_unit == 0 && choice.runtime == Runtime::fsdp1) return std::nullopt;
  Choice base = choice;
  if (is_sparse(choice.checkpointing)) base.checkpointing = {};
  const int period =
      std::lcm(std::max(1, choice.blocks_per_unit), std::max(1, base.checkpointing.every));
  const bool has_buckets = choice.runtime == Runtime::deepspeed;
  const auto of_buckets =
      has_buckets ? depths_of_buckets(inputs.findings->shallow(), period) : std::nullopt;
  const bool repeats = !has_buckets || of_buckets;
  const auto depths = of_buckets ? of_buckets : depths_of(blocks, period, periods);
  if (!depths || (base == choice && !repeats)) return std::nullopt;
  const ShallowTrials trials(inputs, stop);
  const Trial estimate =
      repeats ? trials.extended(base, *depths, blocks) : try_out(base, inputs, stop);
  if (base == choice) return estimate;
  // With as many blocks the first one is checkpointed alone.
  Choice one = choice;
  one.checkpointing.every = depths->more;
  const Trial without = trials.of(base, depths->more), with = trials.of(one, depths->more);
  const auto times = static_cast<std::int64_t>(
      eager::checkpointing_of(inputs.model, choice.checkpointing).modules.size());
  const Trial added =
      combined(without, with, [&](std::int64_t w, std::int64_t v) { return times * (v - w); });
  return combined(estimate, added, std::plus<std::int64_t>());
}

}  // namespace shardscope::planner
