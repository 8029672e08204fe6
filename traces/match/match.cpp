#include "traces/match/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "traces/match/collective_match.h"
#include "traces/match/operator_match.h"
#include "traces/match/unit_match.h"

namespace shardscope {
namespace {

/// What lies in one step of the trace.
struct StepContents {
  std::vector<ProfiledCollective> collectives;
  std::vector<ProfiledOperator> operators;
};

class Matcher {
 public:
  Matcher(const Trace& predicted, const ImportedTrace& profiled, std::optional<Runtime> runtime)
      : trace_(predicted),
        predicted_(predicted_schedule(predicted)),
        profiled_(profiled),
        tree_(profiled),
        seen_units_(profiled, tree_) {
    result_.predicted_runtime = runtime;
  }

  RankMatch run() {
    result_.file = profiled_.file;
    result_.rank = profiled_.rank;
    result_.runtime = seen_units_.runtime();
    result_.predicted_steps = static_cast<std::int64_t>(predicted_.steps.size());
    check_runtime();
    read_steps();
    name_units();
    for (std::size_t i = 0; i < contents_.size(); ++i) match_step(i);
    match_units();
    check_steps();
    check_world();
    note_what_to_check();
    return std::move(result_);
  }

 private:
  void check_runtime() {
    if (result_.has_predicted_runtime()) return;
    const std::string traced(name_of(result_.runtime));
    differ({}, "runtime", std::string(name_of(*result_.predicted_runtime)), traced);
    note(
        fmt::format("predict the runtime that was traced: --runtime {}, or the run's own "
                    "settings.json",
                    traced));
  }

  /// Units of another runtime are cut otherwise, whatever they are called.
  void name_units() {
    if (!result_.has_predicted_runtime()) {
      unit_names_.resize(seen_units_.units().size());
      return;
    }
    std::vector<const ProfiledCollective*> seen;
    for (const StepContents& contents : contents_)
      for (const ProfiledCollective& collective : contents.collectives) seen.push_back(&collective);
    unit_names_ = names_of_units(predicted_, seen_units_, seen);
  }

  void read_steps() {
    ProfiledSteps steps = profiled_steps(profiled_);
    result_.step_marks = steps.marks;
    contents_.resize(steps.steps.size());
    left_over_.resize(steps.steps.size());
    std::int64_t outside = 0;
    for (ProfiledCollective& collective : profiled_collectives(profiled_, tree_, seen_units_)) {
      const auto step = steps.at(collective.issued);
      outside += !step;
      if (step) contents_[*step].collectives.push_back(std::move(collective));
    }
    for (ProfiledOperator& op : profiled_operators(profiled_, tree_, traced_names(predicted_)))
      if (const auto step = steps.at(op.start)) contents_[*step].operators.push_back(std::move(op));
    for (ProfiledStep& step : steps.steps) result_.steps.push_back({.profiled = std::move(step)});
    note_steps(outside);
  }

  void note_steps(std::int64_t outside) {
    if (result_.step_marks == StepMarks::optimizer_steps)
      note(
          "the trace has no ProfilerStep: steps are cut where the optimizer's end (call "
          "prof.step() in the loop)");
    if (result_.step_marks == StepMarks::none)
      note(
          "the trace has neither ProfilerStep nor Optimizer.step: all of it is taken as one step "
          "(call prof.step() in the loop)");
    if (outside > 0) note(fmt::format("{} collectives lie in no step", outside));
  }

  /// The predicted step with most in common; among equals the profiler's own count decides, then
  /// the one that repeats.
  void match_step(std::size_t index) {
    if (predicted_.steps.empty()) return;
    const std::vector<ProfiledCollective>& seen = contents_[index].collectives;
    const std::int64_t own = result_.steps[index].profiled.number.value_or(INT32_MAX) + 1;
    std::optional<SequenceMatch> best;
    std::pair<std::int64_t, int> best_rank;
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < predicted_.steps.size(); ++i) {
      SequenceMatch match = match_collectives(predicted_.steps[i].collectives, seen, unit_names_);
      const bool is_own = predicted_.steps[i].number == own;
      const bool repeats = i + 1 == predicted_.steps.size();
      const std::pair rank{2 * match.counts.sure() - match.counts.predicted, is_own    ? 2
                                                                             : repeats ? 1
                                                                                       : 0};
      if (best && rank <= best_rank) continue;
      best = std::move(match), best_rank = rank, chosen = i;
    }
    add_step(index, predicted_.steps[chosen], *best);
  }

  void add_step(std::size_t index, const PredictedStep& step, const SequenceMatch& collectives) {
    StepPair& pair = result_.steps[index];
    const StepContents& contents = contents_[index];
    pair.predicted = step.number;
    pair.predicted_time = step.window.length();
    pair.collectives = collectives.counts;
    for (const SequenceMatch::Pair& found : collectives.pairs) {
      const PredictedOperation& operation = step.collectives[found.places.first];
      const ProfiledCollective& seen = contents.collectives[found.places.second];
      result_.collectives.push_back({.operation = operation.facts->operation,
                                     .event = seen.seen.event,
                                     .step = index,
                                     .confidence = found.confidence,
                                     .predicted = operation.duration,
                                     .profiled = seen.transfer});
      if (found.confidence == Confidence::order_and_kind)
        differ(pair, "collectives", text_of(*operation.facts), text_of(seen));
    }
    const LeftOver left = left_over(collectives);
    for (const std::size_t i : left.predicted)
      differ(pair, "collectives", text_of(*step.collectives[i].facts), "");
    for (const std::size_t i : left.profiled) {
      differ(pair, "collectives", "", text_of(contents.collectives[i]));
      left_over_[index].push_back(&contents.collectives[i]);
    }
    add_compute(index, step);
  }

  void add_compute(std::size_t index, const PredictedStep& step) {
    StepPair& pair = result_.steps[index];
    const std::vector<ProfiledOperator>& seen = contents_[index].operators;
    const SequenceMatch match = match_operators(trace_, step.operators, seen);
    pair.compute = match.counts;
    for (const PredictedOperation& op : step.operators) pair.predicted_compute += op.duration;
    for (const ProfiledOperator& op : seen) pair.profiled_compute += op.duration;
    for (const SequenceMatch::Pair& found : match.pairs) {
      const PredictedOperation& operation = step.operators[found.places.first];
      const ProfiledOperator& op = seen[found.places.second];
      result_.compute.push_back({.operation = operation.facts->operation,
                                 .event = op.event,
                                 .step = index,
                                 .confidence = found.confidence,
                                 .predicted = operation.duration,
                                 .profiled = op.duration});
      if (found.confidence == Confidence::order_and_kind)
        differ(pair, "compute", text_of(trace_, *operation.facts), text_of(op));
    }
    const LeftOver left = left_over(match);
    for (const std::size_t i : left.predicted)
      differ(pair, "compute", text_of(trace_, *step.operators[i].facts), "");
    for (const std::size_t i : left.profiled) differ(pair, "compute", "", text_of(seen[i]));
  }

  void match_units() {
    const bool named =
        result_.runtime == ProfiledRuntime::fsdp1 || result_.runtime == ProfiledRuntime::fsdp2;
    std::vector<std::string> left;
    std::int64_t there = 0;
    if (named || !result_.has_predicted_runtime()) {
      result_.units = units_by_annotations(predicted_.units, seen_units_, unit_names_);
      add_units_of_pairs(trace_, result_);
      left = units_left_over(predicted_.units, seen_units_, unit_names_);
      there = result_.all_units().matched();
    } else {
      left = match_buckets(predicted_, left_over_, result_);
      there = result_.profiled_units;
    }
    for (const UnitPair& unit : result_.units)
      if (!unit.matched) differ({}, "units", unit_text(unit.name), unit.profiled);
    for (const std::string& unit : left) differ({}, "units", "", unit);
    result_.profiled_units = there + static_cast<std::int64_t>(left.size());
  }

  void check_steps() {
    if (result_.step_marks == StepMarks::none) {
      if (result_.predicted_steps > 0) differ({}, "steps", "a step", "");
      return;
    }
    for (const StepPair& step : result_.steps)
      if (!step.is_alike()) differ(step, "steps", "", step.profiled.name);
  }

  void check_world() {
    if (!profiled_.world || *profiled_.world == trace_.world) return;
    differ({}, "world", fmt::format("{} ranks", trace_.world),
           fmt::format("{} ranks", *profiled_.world));
    note("predict the world that was traced: --world, or the run's own settings.json");
  }

  void note_what_to_check() {
    const PairCounts all = result_.all_collectives();
    if (all.complete() || all.profiled + all.predicted == 0) return;
    if (all.predicted == all.profiled && all.matched() == all.predicted)
      note(
          "the same collectives in the same order, but of other sizes: check the model's config, "
          "the world and the precision");
    else
      note(
          "other collectives, or another number of them: check runtime, strategy, wrapping, "
          "micro-batches (no_sync), clipping and checkpointing");
  }

  void differ(const StepPair& step, std::string_view what, std::string predicted,
              std::string profiled) {
    auto& all = result_.differences;
    const auto so_far = std::count_if(
        all.begin(), all.end(), [&](const MatchDifference& other) { return other.what == what; });
    if (static_cast<std::size_t>(so_far) < most_differences)
      all.push_back(
          {step.profiled.name, std::string(what), std::move(predicted), std::move(profiled)});
  }

  void note(std::string text) { result_.notes.push_back(std::move(text)); }

  const Trace& trace_;
  PredictedSchedule predicted_;
  const ImportedTrace& profiled_;
  HostTree tree_;
  ProfiledUnits seen_units_;
  std::vector<std::optional<std::string>> unit_names_;
  std::vector<StepContents> contents_;  ///< by step
  LeftOverCollectives left_over_;       ///< of contents_
  RankMatch result_;
};

}  // namespace

bool RankMatch::has_predicted_runtime() const {
  return !predicted_runtime || runtime == ProfiledRuntime::none ||
         name_of(*predicted_runtime) == name_of(runtime);
}

bool RankMatch::is_matched(const StepPair& step) const {
  return step_marks != StepMarks::none && step.predicted > 0 && step.collectives.complete();
}

PairCounts RankMatch::all_steps() const {
  PairCounts all;
  if (step_marks != StepMarks::none) {
    all.profiled = static_cast<std::int64_t>(steps.size());
    for (const StepPair& step : steps) {
      all.predicted += step.is_alike();
      if (is_matched(step)) all.count(Confidence::all_fields);
    }
  }
  all.predicted = std::max(all.predicted, std::min<std::int64_t>(predicted_steps, 1));
  return all;
}

PairCounts RankMatch::all_collectives() const {
  PairCounts all;
  for (const StepPair& step : steps) all += step.collectives;
  return all;
}

PairCounts RankMatch::all_compute() const {
  PairCounts all;
  for (const StepPair& step : steps) all += step.compute;
  return all;
}

PairCounts RankMatch::all_units() const {
  PairCounts all{.predicted = static_cast<std::int64_t>(units.size()), .profiled = profiled_units};
  for (const UnitPair& unit : units)
    if (unit.matched) all.count(unit.confidence);
  return all;
}

bool RankMatch::complete() const {
  const bool has_steps = predicted_steps > 0 && all_steps().complete();
  return has_predicted_runtime() && has_steps && all_units().complete() &&
         all_collectives().complete();
}

RankMatch match(const Trace& predicted, const ImportedTrace& profiled,
                std::optional<Runtime> runtime) {
  return Matcher(predicted, profiled, runtime).run();
}

}  // namespace shardscope
