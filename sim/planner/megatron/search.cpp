#include "sim/planner/megatron/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "sim/megatron/prediction.h"
#include "sim/megatron/stage_memory.h"
#include "sim/planner/megatron/layouts.h"
#include "sim/planner/megatron/step_bounds.h"
#include "sim/planner/parallel.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

using megatron::Recompute;
using megatron::Settings;

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
  Search(const MegatronQuestion& question, const MegatronWatcher& watcher)
      : question_(question),
        watcher_(watcher),
        recomputations_(recomputations(question.training)),
        bounds_(question.training, question.profile) {}

  MegatronAnswer answer() {
    enumerate();
    const std::vector<std::size_t> likely = likely_ways();
    weigh(likely);
    predict_one();
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < ways_.size(); ++i)
      if (!std::ranges::binary_search(likely, i)) others.push_back(i);
    weigh(others);
    refuse_what_cannot_be_played();
    predict();
    rank();
    return std::move(answer_);
  }

 private:
  enum class State : std::uint8_t { unknown, waits, predicted, out_of_memory, refused };
  /// A layout with its recomputation.
  struct Way {
    MegatronLayout layout;
    std::uint32_t mesh = 0;
    std::uint8_t recomputation = 0;   ///< of recomputations_
    std::uint8_t layers_at_once = 1;  ///< of full recomputation
    State state = State::unknown;
    Bytes least;                  ///< needed, the margin not counted in
    std::optional<Bytes> margin;  ///< to stay free beside it, once it was predicted
    Duration bound;               ///< of its step
  };
  struct Predicted {
    Settings settings;
    Summary summary;
    int rank = 0;
    bool leaves_margin = false;
  };

  Bytes device() const { return question_.profile.memory; }
  Bytes margin() const { return question_.margin.value_or(usual_margin(device())); }
  bool may_fit(Bytes least) const { return device().count == 0 || least <= device(); }
  bool is_stopped() const { return watcher_.stop.stop_requested(); }

  Settings settings_of(const Way& way) const {
    Settings settings = way.layout.of(question_.training);
    const auto last = recomputations_.size() - 1;
    settings.recompute = recomputations_[std::min<std::size_t>(way.recomputation, last)];
    settings.recompute_layers = way.layers_at_once;
    return settings;
  }

  /// With more layers run again at once fewer inputs are kept, in the same time: as many as need
  /// the least memory.
  void set_layers_at_once(Way& way) const {
    way.layers_at_once = 1;
    way.least = planner::least_memory(settings_of(way));
    if (recomputations_[way.recomputation] != Recompute::full) return;
    Way other = way;
    for (const std::uint8_t layers : {std::uint8_t{2}, std::uint8_t{4}}) {
      other.layers_at_once = layers;
      other.least = planner::least_memory(settings_of(other));
      if (other.least < way.least) way = other;
    }
  }

  /// The next recomputation of the way that may fit, from its own on.
  void settle_recomputation(Way& way) const {
    for (; way.recomputation < recomputations_.size(); ++way.recomputation) {
      set_layers_at_once(way);
      if (may_fit(way.least)) return;
    }
    way.state = State::out_of_memory;
  }

  void enumerate() {
    const std::vector<MegatronLayout> layouts =
        megatron_layouts(question_.training, question_.profile.ranks_per_node);
    answer_.layouts = layouts.size();
    if (layouts.empty()) refuse_training();
    std::map<std::string, std::uint32_t> meshes;
    for (const MegatronLayout& layout : layouts) {
      const auto number = static_cast<std::uint32_t>(meshes.size());
      Way& way = ways_.emplace_back();
      way.layout = layout;
      way.mesh = meshes.try_emplace(megatron_mesh_text(settings_of(way)), number).first->second;
    }
    meshes_ = meshes.size();
    best_.resize(meshes_);
    tight_.resize(meshes_);
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

  Settings smallest_layout() const { return MegatronLayout{}.of(question_.training); }

  /// Of the most tensor-parallel ranks, one sequence at a time and one stage a rank, in increasing
  /// order.
  std::vector<std::size_t> likely_ways() const {
    std::vector<std::size_t> found;
    int most = 1;
    for (const Way& way : ways_) most = std::max(most, way.layout.tensor);
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      const MegatronLayout& one = ways_[i].layout;
      const bool is_usual = one.shards && one.overlaps && !one.overlaps_tensor;
      if (one.tensor != most) continue;
      if (one.micro_batch == 1 && one.stages_per_rank == 1 && one.context == 1 && is_usual)
        found.push_back(i);
    }
    return found;
  }

  /// Finds recomputation and bound of some.
  void weigh(const std::vector<std::size_t>& some) {
    for_each_index(some.size(), 0, [&](std::size_t i) {
      if (is_stopped()) return;
      Way& way = ways_[some[i]];
      settle_recomputation(way);
      if (way.state == State::unknown) bound(way);
    });
    answer_.interrupted = is_stopped();
    for (const std::size_t i : some)
      if (ways_[i].state == State::waits) queue_.insert({ways_[i].bound.ns, i});
    report();
  }

  void bound(Way& way) {
    try {
      way.bound = bounds_.least_step(settings_of(way));
      way.state = State::waits;
    } catch (const Error& error) {
      way.state = State::refused;
      const std::scoped_lock lock(mutex_);
      if (!refused_) refused_ = error;
    }
  }

  void refuse_what_cannot_be_played() const {
    const bool is_any_left = std::ranges::any_of(ways_, [](const Way& way) {
      return way.state != State::refused && way.state != State::unknown;
    });
    if (refused_ && !is_any_left && !answer_.interrupted) throw *refused_;
  }

  /// A mesh needs no other way where it has a better one, and no mesh is needed behind the places.
  bool is_needed(const Way& way) const {
    const std::optional<Predicted>& best = best_[way.mesh];
    if (best) return way.bound < best->summary.step_time;
    return !last_place_ || way.bound < *last_place_;
  }

  /// The next of those that may come to a place, the most promising first.
  std::vector<std::size_t> next(std::size_t most) {
    std::vector<std::size_t> found;
    while (found.size() < most && !queue_.empty()) {
      const std::size_t i = queue_.begin()->second;
      queue_.erase(queue_.begin());
      if (is_needed(ways_[i])) found.push_back(i);
    }
    return found;
  }

  void predict(const std::vector<std::size_t>& some) {
    std::vector<std::optional<Predicted>> found(some.size());
    for_each_index(some.size(), 0, [&](std::size_t i) {
      if (!is_stopped()) found[i] = predicted(settings_of(ways_[some[i]]));
    });
    for (std::size_t i = 0; i < some.size(); ++i)
      if (found[i])
        take(some[i], std::move(*found[i]));
      else
        queue_.insert({ways_[some[i]].bound.ns, some[i]});
    report();
  }

  bool has_best() const {
    return std::ranges::any_of(best_, [](const auto& one) { return one.has_value(); });
  }

  void predict_one() {
    constexpr int tries = 4;
    for (int i = 0; i < tries && !has_best() && !queue_.empty() && !is_stopped(); ++i)
      predict(next(1));
  }

  void predict() {
    // As many whatever the number of threads, so that the answer does not depend on it.
    constexpr std::size_t at_once = 4;
    while (!queue_.empty() && !is_stopped()) predict(next(at_once));
    answer_.interrupted = answer_.interrupted || is_stopped();
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
    way.state = State::predicted;
    const bool leaves = one.leaves_margin;
    const Bytes needed = needed_memory(one.summary), margin = margin_wanted(one.summary);
    if (one.summary.fits) {
      std::optional<Predicted>& best = (leaves ? best_ : tight_)[way.mesh];
      if (!best || one.summary.step_time < best->summary.step_time) best = std::move(one);
    }
    if (leaves) return set_last_place();
    way.least = std::max(way.least, needed);
    way.margin = margin;
    ++way.recomputation;
    way.state = State::unknown;
    settle_recomputation(way);
    if (way.state == State::unknown) bound(way);
    if (way.state == State::waits) queue_.insert({way.bound.ns, index});
  }

  void set_last_place() {
    std::vector<Duration> times;
    for (const std::optional<Predicted>& one : best_)
      if (one) times.push_back(one->summary.step_time);
    if (times.size() < question_.places || times.empty()) return;
    std::ranges::sort(times);
    last_place_ = times[question_.places - 1];
  }

  void report() const {
    if (!watcher_.on_progress) return;
    MegatronProgress progress{
        .layouts = answer_.layouts, .predicted = answer_.predicted, .best = {}, .best_text = {}};
    for (const std::optional<Predicted>& one : best_) {
      if (!one || (progress.best && one->summary.step_time >= *progress.best)) continue;
      progress.best = one->summary.step_time;
      progress.best_text = fmt::format("{}, {}", megatron_mesh_text(one->settings),
                                       megatron_settings_text(one->settings));
    }
    watcher_.on_progress(progress);
  }

  void rank() {
    std::vector<Predicted> sorted;
    const auto take_all = [&](const std::vector<std::optional<Predicted>>& list) {
      for (const std::optional<Predicted>& one : list)
        if (one) sorted.push_back(*one);
    };
    take_all(best_);
    if (sorted.empty()) {
      take_all(tight_);
      answer_.is_tight = !sorted.empty();
    }
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
    std::vector<const Way*> best(meshes_, nullptr);
    for (const Way& way : ways_)
      if (best[way.mesh] == nullptr || is_better(way, *best[way.mesh])) best[way.mesh] = &way;
    for (const Way* way : best) {
      const Settings settings = settings_of(*way);
      if (!placed.contains(megatron_mesh_text(settings)))
        answer_.losers.push_back({.settings = settings, .why = why_lost(*way)});
    }
  }

  static bool is_better(const Way& a, const Way& b) {
    const auto is_bounded = [](const Way& way) {
      return way.state == State::waits || way.state == State::predicted;
    };
    if (a.state == State::out_of_memory && b.state == State::out_of_memory)
      return a.least < b.least;
    if (a.state == State::out_of_memory || b.state == State::out_of_memory)
      return b.state == State::out_of_memory;
    return is_bounded(a) && (!is_bounded(b) || a.bound < b.bound);
  }

  std::string why_lost(const Way& way) const {
    if (way.state == State::out_of_memory)
      return fmt::format("needs at least {} and a margin of {}; the device has {}",
                         rounded_text(way.least), rounded_text(way.margin.value_or(margin())),
                         rounded_text(device()));
    if (way.state == State::refused) return refused_->what();
    if (way.state == State::unknown || answer_.places.empty()) return "was not reached";
    const std::optional<Predicted>& best = best_[way.mesh];
    const Duration last = answer_.places.back().summary.step_time;
    return fmt::format("takes {}{} a step, the last place takes {}", best ? "" : "at least ",
                       rounded_text(best ? best->summary.step_time : way.bound),
                       rounded_text(last));
  }

  const MegatronQuestion& question_;
  const MegatronWatcher& watcher_;
  std::vector<Recompute> recomputations_;
  MegatronStepBounds bounds_;
  std::vector<Way> ways_;
  std::size_t meshes_ = 0;
  std::set<std::pair<std::int64_t, std::size_t>> queue_;  ///< bound, index of the way
  std::vector<std::optional<Predicted>> best_, tight_;    ///< by mesh
  std::optional<Duration> last_place_;
  std::mutex mutex_;
  std::optional<Error> refused_;  ///< the first that could not be played
  MegatronAnswer answer_;
};

}  // namespace

Bytes least_memory(const Settings& settings) {
  Bytes most;
  for (int rank = 0; rank < settings.pipeline; ++rank)
    most = std::max(most, least_of_rank(settings, rank));
  return most;
}

MegatronAnswer plan_megatron(const MegatronQuestion& question, const MegatronWatcher& watcher) {
  return Search(question, watcher).answer();
}

}  // namespace shardscope::planner
