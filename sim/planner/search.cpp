#include "sim/planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "sim/planner/bounds.h"
#include "sim/planner/estimate.h"
#include "sim/planner/layout_group.h"
#include "sim/planner/parallel.h"
#include "sim/planner/pipeline_bounds.h"

namespace shardscope::planner {
namespace {

/// Choices that are tried out before the next look at what is the best: the same on every machine,
/// so that the result is. The first looks come soon, for those who wait for an answer.
constexpr std::size_t first_batch_size = 4;
constexpr std::size_t batch_size = 24;
/// Choices whose bounds are recorded at a time.
constexpr std::size_t recorded_at_once = 64;
/// Members of groups that become choices at a time.
constexpr std::size_t opened_at_once = 128;
/// Bounds of fewer choices are quick.
constexpr std::size_t worth_a_first_look = 200;

/// A choice that was simulated and, as far as is known, fits.
struct Contender {
  std::size_t choice = 0;
  Trial trial;
  bool is_estimate = false;  ///< of the trial
  std::optional<FullSimulation> full = {};
};

/// Those that were given, and behind them those of opened groups.
class Choices {
 public:
  explicit Choices(const std::vector<Choice>& given) : given_(given) {}

  std::size_t size() const { return given_.size() + opened_.size(); }
  const Choice& operator[](std::size_t i) const {
    return i < given_.size() ? given_[i] : opened_[i - given_.size()];
  }
  void add(Choice choice) { opened_.push_back(std::move(choice)); }
  const std::deque<Choice>& opened() const { return opened_; }

 private:
  const std::vector<Choice>& given_;
  std::deque<Choice> opened_;
};

/// Groups of layouts: which of their members may still come to a place.
class Groups {
 public:
  struct Member {
    std::int64_t sought = 0;
    Bounds bounds;
    std::uint32_t group = 0, number = 0;
  };

  explicit Groups(std::span<const LayoutGroup> groups)
      : groups_(groups), is_open_(groups.size(), false) {}

  bool empty() const { return groups_.empty(); }
  Choice choice_of(const Member& member) const {
    return groups_[member.group].member(member.number);
  }
  std::size_t members() const {
    return std::transform_reduce(groups_.begin(), groups_.end(), std::size_t{0}, std::plus<>(),
                                 [](const LayoutGroup& group) { return group.size(); });
  }

  /// Bounds the members of those groups whose bounds `may_win`, and gives up to `most` members that
  /// may, too, the lowest first. `sought` is of bounds; `may_win` of it, bounds and kind.
  template <class Sought, class MayWin, class Kind>
  std::vector<Member> next(std::size_t most, const TrialInputs& inputs,
                           const SearchOptions& options, const Sought& sought,
                           const MayWin& may_win, const Kind& kind) {
    if (bounds_.empty()) {
      bounds_ = group_floors(groups_, inputs, options.threads, options.stop);
      for (const LayoutGroup& group : groups_) kinds_.push_back(kind(group.common));
    }
    const std::size_t known = closed_.size();
    for (std::size_t first = 0; first < groups_.size() && !options.stop.stop_requested();)
      first = open_some(first, inputs, options, sought, may_win);
    if (options.stop.stop_requested()) return {};
    if (closed_.size() > known)
      std::ranges::sort(closed_, {}, [](const Member& member) {
        return std::tuple(member.sought, member.group, member.number);
      });
    std::vector<Member> found;
    std::erase_if(closed_, [&](const Member& member) {
      if (found.size() == most || !may_win(member.sought, member.bounds, kinds_[member.group]))
        return false;
      found.push_back(member);
      return true;
    });
    return found;
  }

 private:
  /// From `first` on, as many as are bounded at a time; the number of the next one.
  template <class Sought, class MayWin>
  std::size_t open_some(std::size_t first, const TrialInputs& inputs, const SearchOptions& options,
                        const Sought& sought, const MayWin& may_win) {
    constexpr std::size_t at_once = 8192;
    std::vector<Member> members;
    std::vector<Choice> choices;
    for (; first < groups_.size() && members.size() < at_once; ++first) {
      if (is_open_[first] || !may_win(sought(bounds_[first]), bounds_[first], kinds_[first]))
        continue;
      is_open_[first] = true;
      for (std::size_t number = 0; number < groups_[first].size(); ++number) {
        members.push_back({.group = static_cast<std::uint32_t>(first),
                           .number = static_cast<std::uint32_t>(number)});
        choices.push_back(groups_[first].member(number));
      }
    }
    const std::vector<Bounds> bounds = floors_of(choices, inputs, options.threads, options.stop);
    for (std::size_t i = 0; i < members.size(); ++i) {
      members[i].bounds = bounds[i];
      members[i].sought = sought(bounds[i]);
      closed_.push_back(members[i]);
    }
    return first;
  }

  std::span<const LayoutGroup> groups_;
  std::vector<bool> is_open_;       // its members are bounded
  std::vector<Bounds> bounds_;      // by group
  std::vector<std::size_t> kinds_;  // by group
  std::vector<Member> closed_;      // of open groups, that are no choices yet: the lowest first
};

class Search {
 public:
  Search(const std::vector<Choice>& choices, const TrialInputs& inputs,
         const SearchOptions& options)
      : given_(choices),
        choices_(choices),
        inputs_(inputs),
        options_(options),
        groups_(options.groups),
        outcomes_(choices.size()),
        settled_(choices.size(), false) {
    for (std::size_t i = 0; i < choices.size(); ++i) outcomes_[i].choice = i;
    for (std::size_t i = 0; i < choices.size(); ++i) kinds_.push_back(kind_number(choices_[i]));
  }

  SearchResult run() {
    try_some_first();
    bound();
    do {
      // What was estimated too low has let others be passed over.
      do {
        explore();
      } while (try_contenders() || open_groups());
    } while (!rehearse_places() && !result_.interrupted);
    if (result_.interrupted && options_.best_after_stop) rehearse_best_so_far();
    settle_the_rest();
    add_wanted();
    return std::move(result_);
  }

 private:
  bool by_memory() const { return options_.objective == Objective::memory; }
  Bytes capacity() const { return inputs_.profile.memory; }
  bool exceeds(Bytes memory) const {
    return capacity() > Bytes{} && memory + inputs_.margin > capacity();
  }
  /// What a node keeps of an offloading choice in the host's memory.
  Bytes on_host(std::size_t choice) const {
    if (choices_[choice].offload == Offload::none) return {};
    try {
      return host_memory_of_node(choices_[choice], inputs_);
    } catch (const Error&) {
      return {};  // trying it out says why
    }
  }
  bool exceeds_host(Bytes memory) const {
    return inputs_.host_memory && memory > *inputs_.host_memory;
  }
  bool is_too_slow(Duration time) const { return options_.slowest && time > *options_.slowest; }

  /// What is sought is the smallest of these.
  std::int64_t sought(Duration time, Bytes memory) const {
    return by_memory() ? memory.count : time.ns;
  }
  std::int64_t sought(const Bounds& bounds) const { return sought(bounds.time, bounds.memory); }
  std::int64_t sought(const Trial& trial) const { return sought(trial.time.span, trial.needed()); }
  auto order_of(const Contender& contender) const {
    const Trial& trial = contender.trial;
    return std::tuple(sought(trial), trial.time.span, trial.needed(), contender.choice);
  }

  std::size_t kind_number(const Choice& choice) {
    if (!options_.kind) return kinds_.size();
    return kind_numbers_.try_emplace(options_.kind(choice), kind_numbers_.size()).first->second;
  }

  /// Makes choices of members of groups that may come to a place; whether there were any.
  bool open_groups() {
    if (groups_.empty() || options_.stop.stop_requested()) return false;
    const Marks to_reach = marks();
    const std::vector<Groups::Member> members = groups_.next(
        options_.screen ? opened_at_once : groups_.members(), inputs_, options_,
        [&](const Bounds& bounds) { return sought(bounds); },
        [&](std::int64_t value, const Bounds& bounds, std::size_t kind) {
          return !options_.screen || (to_reach.reached_by(value, kind) && !exceeds(bounds.memory) &&
                                      !is_too_slow(bounds.time));
        },
        [&](const Choice& choice) {
          return options_.kind ? kind_number(choice) : std::numeric_limits<std::size_t>::max();
        });
    for (const Groups::Member& member : members) {
      const std::size_t choice = choices_.size();
      choices_.add(groups_.choice_of(member));
      kinds_.push_back(kind_number(choices_[choice]));
      bounds_.push_back(member.bounds);
      is_recorded_.push_back(!options_.screen);
      outcomes_.push_back({.choice = choice});
      settled_.push_back(false);
      order_.emplace(member.sought, choice);
    }
    return !members.empty();
  }

  /// By formula: what has to be recorded for a bound is recorded of those that may be best.
  void bound() {
    bounds_.resize(choices_.size());
    is_recorded_.assign(choices_.size(), !options_.screen);
    if (options_.screen) bounds_ = floors_of(given_, inputs_, options_.threads, options_.stop);
    std::vector<std::size_t> without;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (settled_[i]) continue;
      order_.emplace(sought(bounds_[i]), i);
      if (options_.screen && !choices_[i].torchtitan) without.push_back(i);
    }
    record_bounds(without);
  }

  void record_bounds(const std::vector<std::size_t>& some) {
    if (some.empty()) return;
    std::vector<Choice> choices;
    for (const std::size_t i : some) choices.push_back(choices_[i]);
    const std::vector<Bounds> found =
        bounds_of(choices, inputs_, options_.threads, options_.stop, pipelines_);
    for (std::size_t i = 0; i < some.size(); ++i) {
      Bounds& bounds = bounds_[some[i]];
      order_.erase({sought(bounds), some[i]});
      bounds = {.time = std::max(bounds.time, found[i].time),
                .memory = std::max(bounds.memory, found[i].memory)};
      order_.emplace(sought(bounds), some[i]);
      is_recorded_[some[i]] = true;
    }
  }

  /// The best of each kind, best first, as many as there are places.
  std::vector<std::size_t> leaders() const {
    std::vector<std::size_t> found;
    std::set<std::size_t> seen;
    for (std::size_t i = 0; i < contenders_.size() && found.size() < options_.places; ++i)
      if (seen.insert(kinds_[contenders_[i].choice]).second) found.push_back(i);
    return found;
  }

  /// What a choice has to reach: the last place, and the best of its own kind.
  struct Marks {
    std::optional<std::int64_t> last;
    std::map<std::size_t, std::int64_t> by_kind;
    bool reached_by(std::int64_t value, std::size_t kind) const {
      if (last && value > *last) return false;
      const auto own = by_kind.find(kind);
      return own == by_kind.end() || value <= own->second;
    }
  };
  /// The least that a trial may come to; the contender may be an estimate.
  std::int64_t least(const Contender& contender) const {
    if (!contender.is_estimate) return sought(contender.trial);
    return scaled(sought(contender.trial),
                  1 / (1 + estimate_slack(choices_[contender.choice], inputs_.training)));
  }
  Marks marks() const {
    Marks result;
    if (!options_.screen) return result;
    const std::vector<std::size_t> found = leaders();
    if (found.size() == options_.places && !found.empty())
      result.last = sought(contenders_[found.back()].trial);
    for (const Contender& contender : contenders_)
      result.by_kind.try_emplace(kinds_[contender.choice], sought(contender.trial));
    return result;
  }

  /// Tries out in order of bounds until none can come to a place.
  void explore() {
    while (true) {
      const std::vector<std::size_t> batch = next_batch();
      if (batch.empty()) return;
      explore(batch);
      if (options_.stop.stop_requested()) {
        result_.interrupted = true;
        return;
      }
    }
  }

  void explore(const std::vector<std::size_t>& batch) {
    try_batch(batch, [&](std::size_t choice) {
      std::optional<Contender> contender = estimate(choice);
      return contender ? std::move(*contender) : tried(choice);
    });
    report();
  }

  /// Of each kind the choice that fits most easily, by its settings.
  std::vector<std::size_t> modest_ones() const {
    std::map<std::size_t, std::size_t> of_kind;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (choices_[i].checkpointing != eager::CheckpointChoice{.every = 1}) continue;
      std::size_t& modest = of_kind.try_emplace(kinds_[i], i).first->second;
      if (choices_[i].batch < choices_[modest].batch) modest = i;
    }
    std::vector<std::size_t> result;
    for (const auto& [kind, choice] : of_kind) result.push_back(choice);
    return result;
  }

  /// Of torchtitan's by formula: recording them takes long.
  std::vector<Bounds> first_bounds(const std::vector<std::size_t>& some) {
    std::vector<Choice> all, recorded;
    for (const std::size_t i : some) all.push_back(choices_[i]);
    std::ranges::copy_if(all, std::back_inserter(recorded),
                         [](const Choice& choice) { return !choice.torchtitan; });
    std::vector<Bounds> bounds = floors_of(all, inputs_, options_.threads, options_.stop);
    const std::vector<Bounds> found =
        bounds_of(recorded, inputs_, options_.threads, options_.stop, pipelines_);
    for (std::size_t i = 0, next = 0; i < all.size(); ++i)
      if (!all[i].torchtitan) bounds[i] = found[next++];
    return bounds;
  }

  /// A few choices that are likely to fit, before all are bounded: who waits sees an answer soon.
  void try_some_first() {
    if (!options_.screen || !options_.kind || choices_.size() < worth_a_first_look) return;
    const std::vector<std::size_t> some = modest_ones();
    const std::vector<Bounds> bounds = first_bounds(some);
    std::vector<std::pair<std::int64_t, std::size_t>> order;
    for (std::size_t i = 0; i < some.size(); ++i)
      if (!exceeds(bounds[i].memory) && !exceeds_host(on_host(some[i])))
        order.emplace_back(sought(bounds[i]), some[i]);
    std::sort(order.begin(), order.end());
    if (order.size() > first_batch_size) order.resize(first_batch_size);
    std::vector<std::size_t> batch;
    for (const auto& [value, choice] : order) batch.push_back(choice);
    explore(batch);
  }

  /// Loses a choice where its bounds alone say so.
  bool is_lost_by_bounds(std::size_t choice) {
    const Bounds& bounds = bounds_[choice];
    if (exceeds(bounds.memory))
      lose_by_bounds(choice, Reason::out_of_memory);
    else if (const Bytes host = on_host(choice); exceeds_host(host))
      lose(choice, Reason::out_of_host_memory, bounds.time, host);
    else if (is_too_slow(bounds.time))
      lose_by_bounds(choice, Reason::too_slow);
    else
      return false;
    return true;
  }

  /// Those that may come to a place, the most promising first.
  struct Promising {
    std::vector<std::size_t> recorded, by_formula;
  };
  Promising promising(std::size_t most) {
    const Marks to_reach = marks();
    Promising found;
    for (auto at = order_.begin(); at != order_.end();) {
      const auto [value, choice] = *at;
      const bool is_recorded = is_recorded_[choice];
      if (to_reach.last && value > *to_reach.last) break;
      if (found.recorded.size() == most || found.by_formula.size() == recorded_at_once) break;
      if (!to_reach.reached_by(value, kinds_[choice])) {
        ++at;
      } else if (is_lost_by_bounds(choice)) {
        settled_[choice] = true;
        at = order_.erase(at);
      } else {
        (is_recorded ? found.recorded : found.by_formula).push_back(choice);
        ++at;
      }
    }
    return found;
  }

  /// While there are some with lower bounds by formula, few are tried: what they take excludes
  /// others, which then need no recording.
  std::vector<std::size_t> next_batch() {
    Promising found = promising(next_batch_size_);
    while (!found.by_formula.empty() && !options_.stop.stop_requested()) {
      record_bounds(found.by_formula);
      found = promising(first_batch_size);
      if (!found.recorded.empty()) break;
    }
    for (const std::size_t choice : found.recorded) {
      settled_[choice] = true;
      order_.erase({sought(bounds_[choice]), choice});
    }
    next_batch_size_ = std::min(2 * next_batch_size_, batch_size);
    return found.recorded;
  }

  static std::int64_t scaled(std::int64_t value, double factor) {
    return static_cast<std::int64_t>(static_cast<double>(value) * factor);
  }
  bool is_out(const Trial& trial, double factor) const {
    return exceeds({scaled(trial.needed().count, factor)}) ||
           is_too_slow({scaled(trial.time.span.ns, factor)});
  }

  /// An estimate, where there is one that says enough: not of memory, unless it does not fit by
  /// far.
  std::optional<Contender> estimate(std::size_t choice) const {
    if (!options_.screen || by_memory()) return std::nullopt;
    const double slack = estimate_slack(choices_[choice], inputs_.training);
    auto trial = estimated(choices_[choice], inputs_, options_.stop);
    if (trial && is_out(*trial, 1 + slack)) {
      trial = estimated(choices_[choice], inputs_, options_.stop, settled_periods);
      if (trial && is_out(*trial, 1 + slack) && !is_out(*trial, 1 - slack)) return std::nullopt;
    }
    if (!trial) return std::nullopt;
    if (is_rough(choices_[choice])) correct(choice, *trial);
    return Contender{.choice = choice, .trial = *trial, .is_estimate = true};
  }

  /// Pipelines of one schedule that let parameters go alike are off alike.
  std::string family(std::size_t choice) const {
    const Choice& c = choices_[choice];
    return fmt::format("{} {}", name_of(c.pipeline.schedule), zero_stage(c.sharding));
  }
  void correct(std::size_t choice, Trial& estimate) const {
    const auto known = off_.find(family(choice));
    if (known != off_.end())
      estimate.time.span.ns = scaled(estimate.time.span.ns, std::max(1.0, known->second));
  }

  /// Learns how far rough estimates are off from one that was tried out.
  void learn(const std::map<std::size_t, Contender>& estimates) {
    for (const Contender& contender : contenders_) {
      const auto estimate = estimates.find(contender.choice);
      if (contender.is_estimate || estimate == estimates.end()) continue;
      const std::string of = family(contender.choice);
      if (off_.contains(of)) continue;
      const double more =
          contender.trial.time.span.seconds() / estimate->second.trial.time.span.seconds();
      off_.emplace(of, more);
      for (Contender& other : contenders_)
        if (other.is_estimate && is_rough(choices_[other.choice]) && family(other.choice) == of)
          correct(other.choice, other.trial);
    }
    std::stable_sort(
        contenders_.begin(), contenders_.end(),
        [&](const Contender& a, const Contender& b) { return order_of(a) < order_of(b); });
  }

  Contender tried(std::size_t choice) const {
    return {.choice = choice, .trial = try_out(choices_[choice], inputs_, options_.stop)};
  }

  /// `work` makes a contender of a choice. What a stop comes before is not tried, and stays
  /// unsettled.
  template <class Work>
  void try_batch(const std::vector<std::size_t>& batch, const Work& work) {
    std::vector<std::optional<Contender>> contenders(batch.size());
    for_each_index(batch.size(), options_.threads, [&](std::size_t i) {
      if (options_.stop.stop_requested()) return;
      try {
        contenders[i] = work(batch[i]);
      } catch (const Error& error) {
        if (error.code() == ExitCode::interrupted) return;
        outcomes_[batch[i]].reason = Reason::refused;
        outcomes_[batch[i]].text = error.what();
      }
    });
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const bool is_refused = outcomes_[batch[i]].reason == Reason::refused;
      if (contenders[i]) enter(std::move(*contenders[i]));
      settled_[batch[i]] = contenders[i] || is_refused;
      if (settled_[batch[i]]) simulated_.insert(batch[i]);
    }
    result_.simulated = simulated_.size();
  }

  /// How many rough ones of a kind are tried at once: one, whose trial corrects the others, and one
  /// more for each of the kind that did not fit. The same on every machine.
  std::size_t tried_at_once(std::size_t kind) const {
    constexpr std::size_t most = 4;
    const auto lost = lost_rough_.find(kind);
    return lost == lost_rough_.end() ? 1 : std::min(most, 1 + lost->second);
  }

  /// Estimated contenders that may come to a place. Behind a rough one that may, those that are
  /// next in its kind come along: it may not fit.
  std::vector<std::size_t> estimates_to_try() const {
    const Marks to_reach = marks();
    std::vector<std::size_t> batch;
    std::map<std::size_t, std::size_t> left_of_kind;  // rough ones that may come along
    for (const Contender& contender : contenders_) {
      const std::size_t kind = kinds_[contender.choice];
      if (!contender.is_estimate) {
        if (left_of_kind.contains(kind)) left_of_kind[kind] = 0;  // what follows is slower
        continue;
      }
      const bool may_win = to_reach.reached_by(least(contender), kind);
      if (is_rough(choices_[contender.choice])) {
        if (may_win) left_of_kind.try_emplace(kind, tried_at_once(kind));
        const auto left = left_of_kind.find(kind);
        if (left == left_of_kind.end() || left->second == 0) continue;
        --left->second;
      } else if (!may_win) {
        continue;
      }
      batch.push_back(contender.choice);
    }
    if (batch.size() > batch_size) batch.resize(batch_size);
    return batch;
  }

  /// Takes the contenders of a batch out: the rough ones by choice.
  std::map<std::size_t, Contender> take_out(const std::vector<std::size_t>& batch) {
    const std::set<std::size_t> again(batch.begin(), batch.end());
    std::map<std::size_t, Contender> rough;
    for (const Contender& contender : contenders_)
      if (again.contains(contender.choice) && is_rough(choices_[contender.choice]))
        rough.emplace(contender.choice, contender);
    std::erase_if(contenders_, [&](const Contender& c) { return again.contains(c.choice); });
    return rough;
  }

  /// Tries out estimated ones that may come to a place, until none is left. Whether there were any.
  bool try_contenders() {
    bool are_any = false;
    while (!options_.stop.stop_requested()) {
      const std::vector<std::size_t> batch = estimates_to_try();
      if (batch.empty()) return are_any;
      are_any = true;
      const std::map<std::size_t, Contender> rough = take_out(batch);
      try_batch(batch, [&](std::size_t choice) { return tried(choice); });
      if (!rough.empty()) learn(rough);
      for (const auto& [choice, contender] : rough)
        if (outcomes_[choice].reason == Reason::out_of_memory) ++lost_rough_[kinds_[choice]];
      report();
    }
    result_.interrupted = true;
    return false;
  }

  void enter(Contender contender) {
    const Trial& trial = contender.trial;
    const auto lost = [&](Reason reason) {
      lose(contender.choice, reason, trial.time.span, trial.needed(), contender.is_estimate);
    };
    if (trial.is_part || exceeds(trial.needed())) {
      lost(Reason::out_of_memory);
      outcomes_[contender.choice].is_least = trial.is_part;
      return;
    }
    if (is_too_slow(trial.time.span)) return lost(Reason::too_slow);
    const auto place = std::upper_bound(
        contenders_.begin(), contenders_.end(), contender,
        [&](const Contender& a, const Contender& b) { return order_of(a) < order_of(b); });
    contenders_.insert(place, std::move(contender));
  }

  void lose(std::size_t choice, Reason reason, Duration time, Bytes memory,
            bool is_estimate = false) {
    outcomes_[choice] = {.choice = choice,
                         .reason = reason,
                         .time = time,
                         .memory = memory,
                         .is_estimate = is_estimate};
  }

  void lose_by_bounds(std::size_t choice, Reason reason) {
    lose(choice, reason, bounds_[choice].time, bounds_[choice].memory);
    outcomes_[choice].is_least = true;
  }

  /// Plays the places with the allocator: whether all of them fit. Those that do not are out.
  bool rehearse_places() {
    const std::vector<std::size_t> rehearsed = to_rehearse();
    for_each_index(rehearsed.size(), options_.threads, [&](std::size_t i) {
      if (options_.stop.stop_requested()) return;
      Contender& contender = contenders_[rehearsed[i]];
      try {
        contender.full.emplace(simulate_fully(choices_[contender.choice], inputs_, options_.stop));
      } catch (const Error& error) {
        if (error.code() != ExitCode::interrupted) throw;
      }
    });
    result_.interrupted = result_.interrupted || options_.stop.stop_requested();
    bool all_fit = true;
    while (drop_places_that_do_not_fit()) all_fit = false;
    return all_fit;
  }

  std::size_t cores() const {
    return std::max(1U,
                    options_.threads > 0 ? options_.threads : std::thread::hardware_concurrency());
  }

  /// The places that were not played yet. Where cores are idle, also what stands behind a place
  /// of a kind that has lost one already: it is likely to be next.
  std::vector<std::size_t> to_rehearse() const {
    std::vector<std::size_t> result;
    for (const std::size_t place : leaders())
      if (!contenders_[place].full) result.push_back(place);
    for (std::size_t i = 0; i < contenders_.size() && !result.empty() && result.size() < cores();
         ++i) {
      const Contender& contender = contenders_[i];
      const bool has_lost = options_.kind ? kinds_beyond_memory_.contains(kinds_[contender.choice])
                                          : !kinds_beyond_memory_.empty();
      const bool is_next = has_lost && !contender.full && !contender.is_estimate;
      if (is_next && std::ranges::find(result, i) == result.end()) result.push_back(i);
    }
    return result;
  }

  /// What was played ahead stays until it comes to a place.
  bool drop_places_that_do_not_fit() {
    std::set<std::size_t> unfit;
    for (const std::size_t place : leaders()) {
      const Contender& contender = contenders_[place];
      if (!contender.full || contender.full->fits) continue;
      unfit.insert(contender.choice);
      kinds_beyond_memory_.insert(kinds_[contender.choice]);
    }
    return drop([&](const Contender& c) { return unfit.contains(c.choice); }) > 0;
  }

  /// Of a stopped search: plays from the best on until one fits, as many at a time as there are
  /// cores. The user is waiting for the end, so after a few only those that leave the allocator
  /// much room are played, and pipelines of torchtitan, which take seconds, only where there is
  /// nothing else.
  void rehearse_best_so_far() {
    constexpr std::size_t at_once = 3;
    const Bytes roomy{capacity().count / 4 * 3};
    const auto is_roomy = [&](const Contender& contender) {
      return capacity() == Bytes{} || contender.trial.needed() <= roomy;
    };
    const auto takes_long = [&](const Contender& c) {
      return !c.full && is_rough(choices_[c.choice]);
    };
    const bool all_take_long = std::ranges::all_of(contenders_, takes_long);
    std::size_t played = 0;
    bool one_fits = false;
    for (std::size_t next = 0; next < contenders_.size() && !one_fits;) {
      std::vector<std::size_t> some;
      for (; next < contenders_.size() && some.size() < cores() && !one_fits; ++next) {
        const Contender& contender = contenders_[next];
        if (takes_long(contender) && !all_take_long) continue;
        if (contender.full)
          one_fits = contender.full->fits;
        else if (played + some.size() < at_once || is_roomy(contender))
          some.push_back(next);
      }
      played += some.size();
      for_each_index(some.size(), options_.threads, [&](std::size_t i) {
        Contender& contender = contenders_[some[i]];
        contender.full.emplace(simulate_fully(choices_[contender.choice], inputs_));
      });
      for (const std::size_t i : some) one_fits = one_fits || contenders_[i].full->fits;
    }
    drop([](const Contender& c) { return c.full && !c.full->fits; });
    std::stable_partition(contenders_.begin(), contenders_.end(),
                          [](const Contender& c) { return c.full.has_value(); });
  }

  /// Contenders for which the allocator has no room.
  template <class Unfit>
  std::size_t drop(const Unfit& unfit) {
    for (const Contender& contender : contenders_)
      if (unfit(contender)) {
        lose(contender.choice, Reason::out_of_memory, contender.trial.time.span,
             contender.full->reserved + contender.full->outside);
        outcomes_[contender.choice].is_least = contender.full->is_part;
        outcomes_[contender.choice].margin = contender.full->margin;
      }
    return std::erase_if(contenders_, unfit);
  }

  void settle_the_rest() {
    std::vector<bool> ranked(choices_.size(), false);
    for (const std::size_t place : leaders()) {
      Contender& contender = contenders_[place];
      if (!contender.full) continue;  // stopped before
      ranked[contender.choice] = true;
      result_.ranked.push_back({contender.choice, contender.trial, std::move(*contender.full)});
    }
    // Of a stopped search some that may be better were not played.
    const auto may_be_better = [&](const Contender& contender) {
      return result_.interrupted && !ranked[contender.choice] && !result_.ranked.empty() &&
             sought(contender.trial) < sought(result_.ranked.front().trial);
    };
    for (const Contender& contender : contenders_)
      if (!may_be_better(contender))
        lose(contender.choice, by_memory() ? Reason::larger : Reason::slower,
             contender.trial.time.span, contender.trial.needed(), contender.is_estimate);
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (!settled_[i] && !result_.interrupted) settle_bounded(i);
      if (!ranked[i]) result_.others.push_back(std::move(outcomes_[i]));
    }
    result_.opened.assign(choices_.opened().begin(), choices_.opened().end());
    result_.in_groups = groups_.members() - result_.opened.size();
  }

  void settle_bounded(std::size_t choice) {
    const Bounds& bounds = bounds_[choice];
    const Reason reason = exceeds(bounds.memory)     ? Reason::out_of_memory
                          : is_too_slow(bounds.time) ? Reason::too_slow
                                                     : Reason::bounded;
    lose_by_bounds(choice, reason);
  }

  void add_wanted() {
    for (const std::size_t choice : options_.wanted) {
      try {
        result_.wanted.push_back({choice, try_out(choices_[choice], inputs_),
                                  simulate_fully(choices_[choice], inputs_)});
      } catch (const Error&) {
        continue;  // its outcome says why
      }
    }
  }

  void report() const {
    if (!options_.on_progress) return;
    Progress progress{.choices = choices_.size() + groups_.members() - choices_.opened().size(),
                      .simulated = result_.simulated,
                      .best = {},
                      .best_text = {}};
    progress.settled = static_cast<std::size_t>(std::ranges::count(settled_, true)) +
                       groups_.members() - choices_.opened().size();
    if (!contenders_.empty()) {
      progress.best = contenders_.front().trial.time.span;
      progress.best_text = text_of(choices_[contenders_.front().choice]);
    }
    options_.on_progress(progress);
  }

  const std::vector<Choice>& given_;
  Choices choices_;
  const TrialInputs& inputs_;
  const SearchOptions& options_;
  Groups groups_;
  std::map<std::string, std::size_t> kind_numbers_;
  std::vector<std::size_t> kinds_;  // by choice
  std::vector<Bounds> bounds_;
  PipelineBounds pipelines_{inputs_};  // recorded
  std::vector<bool> is_recorded_;      // by choice: its bounds are from recordings
  std::set<std::pair<std::int64_t, std::size_t>> order_;  // unsettled, the lowest bound first
  std::vector<Contender> contenders_;                     // best first
  std::vector<Outcome> outcomes_;                         // by choice
  std::size_t next_batch_size_ = first_batch_size;
  std::map<std::string, double> off_;              // trial over rough estimate, by family
  std::map<std::size_t, std::size_t> lost_rough_;  // that did not fit when tried, by kind
  std::set<std::size_t> kinds_beyond_memory_;      // of which a place did not fit
  std::set<std::size_t> simulated_;                // choices, with some or all of their blocks
  std::vector<bool> settled_;  // by choice: tried out, or known to need too much memory
  SearchResult result_;
};

}  // namespace

std::string_view name_of(Objective objective) {
  constexpr std::string_view names[] = {"time", "memory", "cost"};
  return names[static_cast<std::size_t>(objective)];
}

std::string_view name_of(Reason reason) {
  constexpr std::string_view names[] = {"slower",  "too_slow",      "bounded",
                                        "larger",  "out_of_memory", "out_of_host_memory",
                                        "refused", "not_reached"};
  return names[static_cast<std::size_t>(reason)];
}

SearchResult search(const std::vector<Choice>& choices, const TrialInputs& inputs,
                    const SearchOptions& options) {
  return Search(choices, inputs, options).run();
}

namespace {

/// Of a step of that time. Both times may round to the same, so the difference is said, too.
std::string against(const PlaceToBeat& place, Duration time) {
  if (time <= place.time || place.time <= Duration{})
    return fmt::format("; {} takes {}", place.name, rounded_text(place.time));
  const double more = (time.seconds() / place.time.seconds() - 1) * 100;
  constexpr double least = 0.1;
  return fmt::format(", {} more than {} ({})",
                     more < least ? "less than 0.1%" : fmt::format("{:.1f}%", more), place.name,
                     rounded_text(place.time));
}

}  // namespace

std::string why(const Outcome& outcome, const TrialInputs& inputs,
                const std::optional<PlaceToBeat>& place, std::string_view slowest) {
  const std::string about = outcome.is_estimate ? "about " : "";
  const std::string time = about + rounded_text(outcome.time);
  const std::string beside = place ? against(*place, outcome.time) : "";
  switch (outcome.reason) {
    case Reason::slower:
      // What has not come to a place was tried out without the allocator, whose retries take time.
      return fmt::format(
          "takes {}{} a step{}",
          place && outcome.time <= place->time && !outcome.is_estimate ? "at least " : "", time,
          beside);
    case Reason::too_slow:
      return fmt::format("too slow: takes {} or more a step of the {} allowed", time, slowest);
    case Reason::bounded:
      return fmt::format("takes at least {} a step{}", time, beside);
    case Reason::larger:
      return fmt::format("needs {}{}", about, rounded_text(outcome.memory));
    case Reason::out_of_memory:
      if (outcome.memory <= inputs.profile.memory)
        return fmt::format("tight: needs {}{} of {}, and {} should stay free (--margin)",
                           outcome.is_least ? "at least " : about, rounded_text(outcome.memory),
                           rounded_text(inputs.profile.memory),
                           rounded_text(std::max(inputs.margin, outcome.margin)));
      // What a run holds when it fails says little of what it needs.
      if (outcome.memory.count / 50 < (outcome.memory - inputs.profile.memory).count)
        return fmt::format("out of memory: needs {} {} of the {} there are",
                           outcome.is_estimate ? "about" : "at least", rounded_text(outcome.memory),
                           rounded_text(inputs.profile.memory));
      return fmt::format("out of memory: the {} there are do not suffice",
                         rounded_text(inputs.profile.memory));
    case Reason::out_of_host_memory:
      return fmt::format("out of the host's memory: a node keeps at least {} there and has {}",
                         rounded_text(outcome.memory),
                         rounded_text(inputs.host_memory.value_or(Bytes{})));
    case Reason::refused:
      return outcome.text;
    case Reason::not_reached:
      break;
  }
  return "not reached before the search was stopped";
}

}  // namespace shardscope::planner
