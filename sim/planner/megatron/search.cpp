#include "sim/planner/megatron/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "sim/megatron/divided_step.h"
#include "sim/megatron/prediction.h"
#include "sim/megatron/stage_memory.h"
#include "sim/megatron/training.h"
#include "sim/planner/megatron/layouts.h"
#include "sim/planner/parallel.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

using megatron::Recompute;
using megatron::Settings;

/// By how much an estimate may be off.
constexpr double slack = 0.05;

/// Stages of so many layers, of which embedding and loss stay one where they are.
Settings with_stages_of(Settings s, std::int64_t layers) {
  s.first_rank_layers = s.last_rank_layers = 0;
  s.shape.layers = layers * s.pipeline * s.stages_per_rank - (s.embedding_as_layer ? 1 : 0) -
                   (s.loss_as_layer ? 1 : 0);
  s.shape.experts.dense_layers = 0;
  return s;
}

Settings with_micro_batches(Settings s, std::int64_t micro_batches) {
  s.global_batch = micro_batches * s.micro_batch * s.data();
  return s;
}

/// Of many micro-batches, from two steps of few: behind the warm-up each adds the same time.
Duration step_of(const Settings& s, const HardwareProfile& profile) {
  const auto played = [&](const Settings& one) {
    return predicted_step(megatron_training(one, profile)).time;
  };
  // Warming up takes at most two micro-batches a rank. The interleaved order goes by as many
  // micro-batches as there are ranks.
  constexpr std::int64_t begins = 4, many = 16;
  const std::int64_t all = s.micro_batches(), group = s.pipeline;
  if (all <= many * group) return played(s);
  const Duration few = played(with_micro_batches(s, begins * group));
  const Duration more = played(with_micro_batches(s, (begins + 1) * group));
  const double groups = static_cast<double>(all) / static_cast<double>(group) - begins;
  return Duration::from_seconds(few.seconds() + groups * (more.seconds() - few.seconds()));
}

/// Micro-batches of which a stage of the rank holds activations at once, of all its stages.
/// Source: Megatron-LM core/pipeline_parallel/schedules.py (get_pp_rank_microbatches).
std::int64_t chunks_in_flight(const Settings& s, int rank) {
  const std::int64_t all = s.micro_batches() * s.stages_per_rank;
  const std::int64_t ahead = s.pipeline - rank - 1;
  const std::int64_t warm_up =
      s.stages_per_rank == 1 ? ahead : 2 * ahead + std::int64_t{s.stages_per_rank - 1} * s.pipeline;
  return std::min(all, warm_up + 1);
}

Bytes least_of_rank(const Settings& s, int rank) {
  const megatron::StateBytes states = megatron::state_bytes(s, rank);
  Bytes smallest{std::int64_t{1} << 62}, working;
  for (int chunk = 0; chunk < s.stages_per_rank; ++chunk) {
    const megatron::ChunkMemory memory = megatron::chunk_memory(s, chunk * s.pipeline + rank);
    smallest = std::min(smallest, memory.kept);
    working = std::max(working, memory.in_backward);
  }
  return states.parameters + states.gradients + states.optimizer + states.eight_bits +
         megatron::unread_gradients(s, rank) + smallest * chunks_in_flight(s, rank) + working;
}

std::vector<Recompute> recomputations(const Settings& s) {
  // Fused attention keeps nothing that selective recomputation would save but sums.
  if (s.attention != megatron::Attention::unfused) return {Recompute::none, Recompute::full};
  return {Recompute::none, Recompute::selective, Recompute::full};
}

std::string parts_text(const Accounting& slower, const Accounting& faster) {
  const std::pair<Duration, std::string_view> parts[] = {
      {slower.compute - faster.compute, "compute"},
      {slower.exposed_communication - faster.exposed_communication, "exposed communication"},
      {slower.idle - faster.idle, "idle time"}};
  const auto* most =
      std::ranges::max_element(parts, {}, [](const auto& part) { return part.first; });
  return fmt::format("{} more {}", rounded_text(most->first), most->second);
}

class Search {
 public:
  Search(const MegatronQuestion& question, const std::stop_token& stop)
      : question_(question), stop_(stop) {}

  MegatronAnswer answer() {
    enumerate();
    estimate();
    predict();
    rank();
    return std::move(answer_);
  }

 private:
  /// A layout with its recomputation.
  struct Way {
    Settings settings;
    std::size_t recomputation = 0;  ///< of recomputations()
    Bytes least;                    ///< needed, the margin not counted in
    Bytes margin;                   ///< to stay free beside it
    std::optional<Duration> estimate;
    bool is_out_of_memory = false;
    std::optional<Error> refused;  ///< it cannot be played
  };
  struct Predicted {
    Settings settings;
    Summary summary;
    int rank = 0;
    bool leaves_margin = false;
  };

  Bytes device() const { return question_.profile.memory; }
  bool may_fit(Bytes least) const { return device().count == 0 || least <= device(); }

  /// The next recomputation of the way that may fit, from its own on.
  void settle_recomputation(Way& way) const {
    const std::vector<Recompute> all = recomputations(way.settings);
    for (; way.recomputation < all.size(); ++way.recomputation) {
      way.settings.recompute = all[way.recomputation];
      way.least = planner::least_memory(way.settings);
      if (may_fit(way.least)) return;
    }
    way.is_out_of_memory = true;
  }

  void enumerate() {
    const std::vector<Settings> layouts =
        megatron_layouts(question_.training, question_.profile.ranks_per_node);
    answer_.layouts = layouts.size();
    if (layouts.empty()) refuse_training();
    for (const Settings& settings : layouts) {
      Way& way = ways_.emplace_back();
      way.settings = settings;
      way.margin = question_.margin.value_or(usual_margin(device()));
      settle_recomputation(way);
    }
  }

  /// Where no layout is without contradictions.
  [[noreturn]] void refuse_training() const {
    for (const megatron::Contradiction& one : megatron::contradictions(smallest_layout()))
      if (!one.is_refused || one.flag != "global-batch-size")
        throw Error({.where = question_.origin.place_of(one.flag),
                     .what = one.what,
                     .way_out = one.way_out});
    throw Error({.where = "--world",
                 .what = fmt::format("no layout of Megatron-LM divides {} sequences and {} layers "
                                     "over {} ranks",
                                     question_.training.global_batch,
                                     question_.training.shape.layers, question_.training.world),
                 .way_out = "give --tokens-per-batch with a multiple of --seq x --world"});
  }

  Settings smallest_layout() const {
    Settings s = question_.training;
    s.embedding_as_layer = s.loss_as_layer = false;
    s.first_rank_layers = s.last_rank_layers = 0;
    s.tensor = s.pipeline = s.context = s.expert = s.stages_per_rank = 1;
    s.micro_batch = 1;
    s.sequence_parallel = s.distributed_optimizer = false;
    s.overlaps_gradients = s.overlaps_parameters = false;
    return s;
  }

  void estimate() {
    for_each_index(ways_.size(), 0, [&](std::size_t i) {
      if (ways_[i].is_out_of_memory || stop_.stop_requested()) return;
      try {
        ways_[i].estimate = estimated_step(ways_[i].settings, question_.profile);
      } catch (const Error& error) {
        ways_[i].refused = error;
      }
    });
    answer_.interrupted = stop_.stop_requested();
    const auto refused =
        std::ranges::find_if(ways_, [](const Way& way) { return way.refused.has_value(); });
    const bool none_is_left = std::ranges::none_of(
        ways_, [](const Way& way) { return way.estimate.has_value() || way.is_out_of_memory; });
    if (refused != ways_.end() && none_is_left && !answer_.interrupted) throw *refused->refused;
    for (std::size_t i = 0; i < ways_.size(); ++i)
      if (ways_[i].estimate) queue_.insert({ways_[i].estimate->ns, i});
  }

  /// A mesh needs no other way where it has a better one, and no mesh is needed behind the places.
  bool is_needed(const Way& way) const {
    const auto best = best_.find(megatron_mesh_text(way.settings));
    const double time = static_cast<double>(way.estimate->ns) * (1 - slack);
    if (best != best_.end()) return time < static_cast<double>(best->second.summary.step_time.ns);
    std::vector<std::int64_t> times;
    for (const auto& [mesh, one] : best_)
      if (one.leaves_margin) times.push_back(one.summary.step_time.ns);
    std::ranges::sort(times);
    return times.size() < question_.places ||
           time < static_cast<double>(times[question_.places - 1]);
  }

  void predict() {
    while (!queue_.empty() && !stop_.stop_requested()) {
      // As many whatever the number of threads, so that the answer does not depend on it.
      constexpr std::size_t at_once = 4;
      std::vector<std::size_t> next;
      while (next.size() < at_once && !queue_.empty()) {
        const std::size_t i = queue_.begin()->second;
        queue_.erase(queue_.begin());
        if (is_needed(ways_[i])) next.push_back(i);
      }
      std::vector<Predicted> found(next.size());
      for_each_index(next.size(), 0,
                     [&](std::size_t i) { found[i] = predicted(ways_[next[i]].settings); });
      for (std::size_t i = 0; i < next.size(); ++i) take(next[i], std::move(found[i]));
    }
    answer_.interrupted = answer_.interrupted || stop_.stop_requested();
  }

  Predicted predicted(const Settings& settings) const {
    std::vector<Prediction> stages =
        predict_megatron(settings, question_.assumed, question_.profile);
    const auto most = std::ranges::max_element(
        stages, {}, [](const Prediction& one) { return needed_memory(one.summary); });
    Summary summary = std::move(most->summary);
    summary.margin = question_.margin;
    const bool leaves = leaves_margin(summary);
    return {.settings = settings,
            .summary = std::move(summary),
            .rank = most->trace.rank,
            .leaves_margin = leaves};
  }

  void take(std::size_t index, Predicted one) {
    ++answer_.predicted;
    Way& way = ways_[index];
    const bool leaves = one.leaves_margin;
    const Bytes needed = needed_memory(one.summary), margin = margin_wanted(one.summary);
    const std::string mesh = megatron_mesh_text(one.settings);
    if (one.summary.fits) {
      auto& list = leaves ? best_ : tight_;
      const auto [found, fresh] = list.try_emplace(mesh, one);
      if (!fresh && one.summary.step_time < found->second.summary.step_time)
        found->second = std::move(one);
    }
    if (leaves) return;
    way.least = std::max(way.least, needed);
    way.margin = margin;
    ++way.recomputation;
    settle_recomputation(way);
    if (way.is_out_of_memory) return;
    way.estimate = estimated_step(way.settings, question_.profile);
    queue_.insert({way.estimate->ns, index});
  }

  void rank() {
    answer_.is_tight = best_.empty() && !tight_.empty();
    std::vector<Predicted> sorted;
    for (const auto& [mesh, one] : answer_.is_tight ? tight_ : best_) sorted.push_back(one);
    std::ranges::stable_sort(sorted, {},
                             [](const Predicted& one) { return one.summary.step_time.ns; });
    if (sorted.size() > question_.places) sorted.resize(question_.places);
    std::set<std::string> placed;
    for (Predicted& one : sorted) {
      MegatronPlace place{.settings = one.settings,
                          .summary = std::move(one.summary),
                          .rank = one.rank,
                          .place = static_cast<int>(answer_.places.size()) + 1,
                          .why = {}};
      if (!answer_.places.empty()) place.why = why_slower(place.summary);
      placed.insert(megatron_mesh_text(place.settings));
      answer_.places.push_back(std::move(place));
    }
    tell_losers(placed);
  }

  std::string why_slower(const Summary& summary) const {
    const Summary& first = answer_.places.front().summary;
    const double share = summary.step_time.seconds() / first.step_time.seconds() - 1;
    return fmt::format("{:.1f}% slower: {}", 100 * share, parts_text(summary.time, first.time));
  }

  void tell_losers(const std::set<std::string>& placed) {
    std::map<std::string, const Way*> best;
    std::vector<std::string> order;
    for (const Way& way : ways_) {
      const std::string mesh = megatron_mesh_text(way.settings);
      if (placed.contains(mesh)) continue;
      const auto [found, fresh] = best.try_emplace(mesh, &way);
      if (fresh) order.push_back(mesh);
      if (is_better(way, *found->second)) found->second = &way;
    }
    for (const std::string& mesh : order)
      answer_.losers.push_back({.settings = best[mesh]->settings, .why = why_lost(*best[mesh])});
  }

  static bool is_better(const Way& a, const Way& b) {
    if (a.is_out_of_memory || b.is_out_of_memory)
      return a.is_out_of_memory == b.is_out_of_memory ? a.least < b.least : b.is_out_of_memory;
    return a.estimate && (!b.estimate || *a.estimate < *b.estimate);
  }

  std::string why_lost(const Way& way) const {
    if (way.is_out_of_memory)
      return fmt::format("needs at least {} and a margin of {}; the device has {}",
                         rounded_text(way.least), rounded_text(way.margin), rounded_text(device()));
    if (way.refused) return way.refused->what();
    if (!way.estimate || answer_.places.empty()) return "was not reached";
    const auto found = best_.find(megatron_mesh_text(way.settings));
    const bool is_exact = found != best_.end();
    const Duration time = is_exact ? found->second.summary.step_time : *way.estimate;
    const Duration last = answer_.places.back().summary.step_time;
    return fmt::format("{} {} a step, the last place takes {}",
                       is_exact ? "takes" : "takes an estimated", rounded_text(time),
                       rounded_text(last));
  }

  const MegatronQuestion& question_;
  std::stop_token stop_;
  std::vector<Way> ways_;
  std::set<std::pair<std::int64_t, std::size_t>> queue_;  ///< estimate, index of the way
  std::map<std::string, Predicted> best_, tight_;         ///< by mesh
  MegatronAnswer answer_;
};

}  // namespace

Duration estimated_step(const Settings& settings, const HardwareProfile& profile) {
  const std::vector<int> layers = settings.stage_layers();
  const int longest = *std::ranges::max_element(layers);
  const Duration one = step_of(with_stages_of(settings, 1), profile);
  if (longest <= 1) return one;
  const Duration two = step_of(with_stages_of(settings, 2), profile);
  return Duration::from_seconds(one.seconds() + (longest - 1) * (two.seconds() - one.seconds()));
}

Bytes least_memory(const Settings& settings) {
  Bytes most;
  for (int rank = 0; rank < settings.pipeline; ++rank)
    most = std::max(most, least_of_rank(settings, rank));
  return most;
}

MegatronAnswer plan_megatron(const MegatronQuestion& question, const std::stop_token& stop) {
  return Search(question, stop).answer();
}

}  // namespace shardscope::planner
