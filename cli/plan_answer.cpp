#include "cli/plan_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "cli/native_scenario.h"
#include "cli/plan_compare.h"
#include "cli/plan_given.h"
#include "cli/plan_larger.h"
#include "cli/plan_plot.h"
#include "core/base/error.h"
#include "sim/cost/cost_model.h"
#include "sim/planner/parallel.h"

namespace shardscope {
namespace {

using planner::Choice;
using planner::Outcome;
using planner::Reason;

constexpr std::int64_t usual_places = 5;

double gpu_hours_of(const Summary& summary) {
  if (summary.tokens_per_s_per_device <= 0) return 0;
  constexpr double tokens = 1e9, seconds_an_hour = 3600;
  return tokens / summary.tokens_per_s_per_device / seconds_an_hour;
}

std::size_t places_of(const PlanOptions& options) {
  const std::int64_t places = options.places.value_or(usual_places);
  constexpr std::int64_t most = 50;
  if (places < 1 || places > most)
    throw Error(
        {.where = "--places", .what = fmt::format("expected 1 to {}, got {}", most, places)});
  return static_cast<std::size_t>(places);
}

std::string kind_of(const Choice& choice) {
  return fmt::format("{} {}", name_of(choice.runtime), name_of(choice.sharding));
}

/// Builds the answer from what the search found.
class Planning {
 public:
  Planning(const PlanInputs& inputs, const PlanOptions& options, const PlanProgress& progress)
      : inputs_(inputs),
        options_(options),
        progress_(progress),
        objective_(options.asked_objective()),
        costs_(inputs.hardware.profile),
        native_(native_target(inputs.job, {.kind = inputs.hardware.profile.device,
                                           .threads = inputs.hardware.profile.threads_per_rank})),
        planning_{.model = inputs.model,
                  .config = inputs.config,
                  .training = inputs.question.training,
                  .profile = inputs.hardware.profile,
                  .costs = costs_,
                  .native_target = native_.target,
                  .allocator = inputs.allocator,
                  .margin = inputs.margin.value_or(Bytes{})} {}

  PlanAnswer run() {
    const auto start = std::chrono::steady_clock::now();
    for (const int world : worlds()) search_on(world, Memory::device);
    if (ranked_.empty() && !stopped())
      for (const int world : worlds()) search_on(world, Memory::host);
    answer_.choices = choices_.size();
    add_best();
    add_front();
    explain_places();
    choose();
    add_losers();
    if (inputs_.given) set_given();
    if (offloads_ && !answer_.candidates.empty())
      answer_.remarks.emplace_back(
          "nothing fits without offload, and the time of the host's own update is not in these");
    if (answer_.candidates.empty() && !answer_.interrupted)
      answer_.advice = advice_where_nothing_fits(inputs_, choices_, others_, planning_);
    else if (!answer_.candidates.empty() && !stopped())
      add_remarks();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    answer_.elapsed_s = elapsed.count();
    answer_.interrupted = answer_.interrupted || stopped();
    return std::move(answer_);
  }

 private:
  bool stopped() const { return progress_.stop.stop_requested(); }
  bool by_memory() const { return objective_ == PlanObjective::memory; }

  /// All ranks; where costs count, also half of them and so on, as long as they share the batch.
  std::vector<int> worlds() const {
    std::vector<int> result{inputs_.question.world};
    while (objective_ == PlanObjective::cost && result.back() % 2 == 0)
      result.push_back(result.back() / 2);
    return result;
  }

  /// What the host's memory holds of it. Its update is not timed, so that what offloads is weighed
  /// only where nothing else fits.
  enum class Memory : std::uint8_t { device, host };

  void search_on(int world, Memory memory) {
    planner::Enumeration all = choices_of(inputs_, options_, world);
    const bool offloads = memory == Memory::host;
    const std::size_t put_off = std::erase_if(all.choices, [&](const Choice& choice) {
      return (choice.offload != planner::Offload::none) != offloads;
    });
    if (!offloads && put_off > 0)
      all.dropped.push_back({"offload",
                             "the host's update is not timed: weighed only where nothing fits "
                             "without it"});
    const planner::SearchResult found = planner::search(
        all.choices, planning_,
        {.objective = by_memory() ? planner::Objective::memory : planner::Objective::time,
         .places = places_of(options_),
         .kind = kind_of,
         .on_progress = progress_.report,
         .stop = progress_.stop});
    const std::size_t first = choices_.size();
    for (Outcome outcome : found.others) {
      outcome.choice += first;
      others_.push_back(std::move(outcome));
    }
    for (const planner::Ranked& ranked : found.ranked) ranked_.push_back(first + ranked.choice);
    if (first == 0) answer_.dropped = std::move(all.dropped);
    if (offloads) offloads_ = true;
    choices_.insert(choices_.end(), all.choices.begin(), all.choices.end());
    answer_.simulated += found.simulated;
    answer_.interrupted = answer_.interrupted || found.interrupted;
  }

  Candidate candidate_of(const Choice& choice) const {
    Candidate candidate{.choice = choice, .summary = summary_of(choice, inputs_, planning_)};
    candidate.summary.margin = inputs_.margin;
    candidate.gpu_hours = gpu_hours_of(candidate.summary);
    return candidate;
  }

  /// In the order of what is shown, which knows more than the search: the allocator's retries.
  void add_best() {
    answer_.candidates.resize(ranked_.size());
    planner::for_each_index(ranked_.size(), 0, [&](std::size_t i) {
      answer_.candidates[i] = candidate_of(choices_[ranked_[i]]);
    });
    for (const Candidate& candidate : answer_.candidates)
      if (memory_fit(candidate.summary) != MemoryFit::yes)
        answer_.rejected.push_back(
            {planner::strategy_text(candidate.choice),
             fmt::format("{}: the tensors fit, but the caching allocator would {}",
                         settings_text(candidate.choice),
                         candidate.summary.fits ? "leave less than the margin"
                                                : "reserve more than the device has")});
    std::erase_if(answer_.candidates,
                  [](const Candidate& c) { return memory_fit(c.summary) != MemoryFit::yes; });
    std::stable_sort(answer_.candidates.begin(), answer_.candidates.end(),
                     [&](const Candidate& a, const Candidate& b) { return key_of(a) < key_of(b); });
    if (answer_.candidates.size() > places_of(options_))
      answer_.candidates.resize(places_of(options_));
    answer_.best_few = answer_.candidates.size();
  }

  double key_of(const Candidate& candidate) const {
    if (by_memory()) return static_cast<double>(needed_memory(candidate.summary).count);
    if (objective_ == PlanObjective::cost) return candidate.gpu_hours;
    return static_cast<double>(candidate.summary.step_time.ns);
  }

  /// Settings that save memory by themselves, beside the micro-batch.
  static bool is_plain(const Choice& choice) {
    return choice.blocks_per_unit == 1 && choice.checkpointing.every <= 1 &&
           !choice.reduces_every_micro_batch && choice.prefetch != planner::Prefetch::both &&
           choice.prefetch != planner::Prefetch::post;
  }

  /// The fastest plain one that does with a part of the best one's memory.
  void add_front() {
    if (answer_.candidates.empty() || by_memory()) return mark_front();
    const Bytes best = needed_memory(answer_.candidates.front().summary);
    std::vector<Choice> plain = choices_;
    std::erase_if(plain, [](const Choice& choice) { return !is_plain(choice); });
    for (const double share : {0.7, 0.45, 0.25}) {
      if (stopped()) break;
      HardwareProfile smaller = inputs_.hardware.profile;
      smaller.memory = {static_cast<std::int64_t>(share * static_cast<double>(best.count))};
      planner::TrialInputs planning{
          planning_.model, planning_.config,        planning_.training, smaller,
          planning_.costs, planning_.native_target, planning_.allocator};
      const planner::SearchResult found =
          planner::search(plain, planning, {.places = 1, .stop = progress_.stop});
      answer_.simulated += found.simulated;
      if (found.ranked.empty()) break;
      const Choice& choice = plain[found.ranked.front().choice];
      const auto known = std::find_if(answer_.candidates.begin(), answer_.candidates.end(),
                                      [&](const Candidate& c) { return c.choice == choice; });
      if (known != answer_.candidates.end()) continue;
      Candidate candidate = candidate_of(choice);
      if (memory_fit(candidate.summary) == MemoryFit::yes)
        answer_.candidates.push_back(std::move(candidate));
    }
    mark_front();
  }

  static bool dominates(const Summary& a, const Summary& b) {
    const Bytes of_a = needed_memory(a), of_b = needed_memory(b);
    return a.step_time <= b.step_time && of_a <= of_b && (a.step_time < b.step_time || of_a < of_b);
  }

  /// Of the candidates themselves, whose figures are final; behind the places only those stay.
  void mark_front() {
    auto& all = answer_.candidates;
    for (Candidate& candidate : all)
      candidate.on_front =
          candidate.summary.fits &&
          std::none_of(all.begin(), all.end(), [&](const Candidate& other) {
            return other.summary.fits && dominates(other.summary, candidate.summary);
          });
    std::vector<Candidate> kept;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i < answer_.best_few || all[i].on_front) kept.push_back(std::move(all[i]));
    all = std::move(kept);
  }

  void explain_places() {
    for (std::size_t i = 0; i < answer_.candidates.size(); ++i) {
      Candidate& candidate = answer_.candidates[i];
      candidate.place = static_cast<int>(i) + 1;
      if (i == 0) continue;
      const Summary& best = answer_.candidates.front().summary;
      candidate.why = why_not_best(best, candidate.summary, objective_);
      candidate.ties = cannot_be_told_apart(best, candidate.summary);
    }
  }

  /// Where --margin asks for less than is usual.
  static bool has_small_margin(const Summary& summary) {
    const auto left = free_memory(summary);
    return left && *left < usual_margin(*summary.device_memory);
  }

  /// What speaks against a place: nothing, that its file alone would take more memory, or that next
  /// to none is left.
  enum class Objection : std::uint8_t { none, beyond_the_file, small_margin };
  Objection objection_to(const Candidate& candidate) const {
    if (has_small_margin(candidate.summary)) return Objection::small_margin;
    return memory_beyond_the_file(candidate.choice, written_from(inputs_)).empty()
               ? Objection::none
               : Objection::beyond_the_file;
  }

  std::string text_of_objection(const Candidate& candidate) const {
    if (has_small_margin(candidate.summary))
      return fmt::format("it has {} to spare", rounded_text(*free_memory(candidate.summary)));
    return fmt::format("no file says \"{}\"",
                       memory_beyond_the_file(candidate.choice, written_from(inputs_)));
  }

  /// Of those that cannot be told apart the first with the least against it.
  void choose() {
    const auto& all = answer_.candidates;
    for (std::size_t i = 1; i < answer_.best_few; ++i)
      if (all[i].ties && objection_to(all[i]) < objection_to(all[answer_.chosen]))
        answer_.chosen = i;
    if (answer_.chosen > 0) answer_.why_not_first = text_of_objection(all.front());
  }

  /// The outcome that says most of a strategy: the fastest one simulated, else the lowest bound,
  /// else what needs least memory.
  static bool says_more(const Outcome& a, const Outcome& b) {
    if (a.reason != b.reason) return a.reason < b.reason;
    if (a.reason == Reason::out_of_memory || a.reason == Reason::larger) return a.memory < b.memory;
    return a.time < b.time;
  }

  void add_losers() {
    std::set<std::string> shown;
    for (std::size_t i = 0; i < answer_.best_few; ++i)
      shown.insert(kind_of(answer_.candidates[i].choice));
    std::vector<std::string> order;
    std::map<std::string, const Outcome*> best;
    for (const Outcome& outcome : others_) {
      const std::string kind = kind_of(choices_[outcome.choice]);
      if (shown.contains(kind)) continue;
      const auto [place, is_new] = best.try_emplace(kind, &outcome);
      if (is_new) order.push_back(kind);
      if (says_more(outcome, *place->second)) place->second = &outcome;
    }
    std::optional<Duration> last;
    if (answer_.best_few > 0) last = answer_.candidates[answer_.best_few - 1].summary.step_time;
    for (const std::string& kind : order)
      answer_.rejected.push_back({kind, planner::why(*best[kind], planning_, last)});
  }

  /// "Only 53 MiB spare: likely to run out of memory. Place 4 is 3.1% slower and leaves 9 GiB."
  std::string small_margin_text() const {
    const Summary& best = answer_.candidates.front().summary;
    std::string text = fmt::format("Only {} spare in place 1: likely to run out of memory.",
                                   rounded_text(*free_memory(best)));
    for (const Candidate& candidate : answer_.candidates) {
      const Summary& summary = candidate.summary;
      if (has_small_margin(summary)) continue;
      constexpr double hundred = 100;
      return text + fmt::format(" Place {} is {:.1f}% slower and leaves {}.", candidate.place,
                                (static_cast<double>(summary.step_time.ns) /
                                     static_cast<double>(best.step_time.ns) -
                                 1) *
                                    hundred,
                                rounded_text(*free_memory(summary)));
    }
    return text;
  }

  void add_remarks() {
    const Summary& best = answer_.candidates.front().summary;
    if (has_small_margin(best)) answer_.remarks.push_back(small_margin_text());
    for (std::string& remark : remarks_on(answer_.candidates.front(), inputs_, planning_))
      answer_.remarks.push_back(std::move(remark));
  }

  void set_given() {
    answer_.given = place_of_given(inputs_, choices_, planning_, progress_);
    if (!answer_.given->refused.empty()) return;
    for (const Candidate& candidate : answer_.candidates)
      answer_.given->faster_choices +=
          candidate.summary.step_time < answer_.given->summary.step_time ? 1 : 0;
  }

  const PlanInputs& inputs_;
  const PlanOptions& options_;
  const PlanProgress& progress_;
  PlanObjective objective_;
  CostModel costs_;
  NativeTarget native_;
  planner::TrialInputs planning_;
  std::vector<Choice> choices_;
  std::vector<Outcome> others_;
  std::vector<std::size_t> ranked_;  // indices of choices_
  bool offloads_ = false;            // they were weighed
  PlanAnswer answer_;
};

}  // namespace

PlanAnswer plan(const PlanInputs& inputs, const PlanOptions& options,
                const PlanProgress& progress) {
  return Planning(inputs, options, progress).run();
}

}  // namespace shardscope
