// The search of the planner: every choice is bounded, those that may be the best are simulated, and
// every other one is told why it is not.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "sim/planner/choice.h"
#include "sim/planner/enumerate.h"
#include "sim/planner/trial.h"

namespace shardscope::planner {

/// What the best is best at. Cost is GPU-hours: at a fixed number of devices, time.
enum class Objective : std::uint8_t { time, memory, cost };
std::string_view name_of(Objective objective);

struct Progress {
  std::size_t choices = 0;
  std::size_t settled = 0;  ///< simulated, or known not to be among the best
  std::size_t simulated = 0;
  std::optional<Duration> best;  ///< step time of the best that fits, so far
  std::string best_text;         ///< "fsdp2 full_shard, batch 4, bf16_mixed"
};

struct SearchOptions {
  Objective objective = Objective::time;
  /// Further layouts. A group is opened where one of its members may come to a place, and these
  /// then become choices.
  std::span<const LayoutGroup> groups = {};
  std::size_t places = 10;  ///< ranked and rehearsed with the allocator
  /// A place is the best of its kind. Empty: every choice is a kind of its own.
  std::function<std::string(const Choice&)> kind = {};
  unsigned threads = 0;                  ///< 0: all cores. The result does not depend on it
  bool screen = true;                    ///< false: every choice is simulated
  std::optional<Duration> slowest = {};  ///< step time that a place may have; none: any
  /// Choices whose figures are wanted whatever their place, by index.
  std::vector<std::size_t> wanted = {};
  /// Called by the searching thread now and then.
  std::function<void(const Progress&)> on_progress = {};
  /// Called by cores that have nothing else to do, with places that fit, once for each: what will
  /// be asked of them can be found out ahead. Not of pipelines, which take long.
  std::function<void(const Choice&)> look_ahead = {};
  std::stop_token stop = {};
  bool best_after_stop = true;  ///< a stopped search plays the best so far; false: nothing more
};

/// Why a choice is not ranked.
enum class Reason : std::uint8_t {
  slower,              ///< simulated: takes `time`
  too_slow,            ///< takes `time` or more, by which the longest step allowed is exceeded
  bounded,             ///< cannot be faster than `time`, and the last place is
  larger,              ///< simulated, by memory: needs `memory`
  out_of_memory,       ///< needs `memory` or more, by which the device is exceeded
  out_of_host_memory,  ///< keeps `memory` or more in the memory of a node, which has less
  refused,             ///< the runtime raises, or we cannot: `text`
  not_reached          ///< the search was stopped before
};

/// What became of a choice.
struct Outcome {
  std::size_t choice = 0;  ///< index into the choices that were given
  Reason reason = Reason::not_reached;
  Duration time;  ///< of a step, simulated or a lower bound of it; 0: not known
  Bytes memory;   ///< with what lies outside, simulated or a lower bound; 0: not known. Of a node
                  ///< where its host's memory is exceeded
  /// Time and memory follow from simulations with fewer blocks (sim/planner/estimate.h).
  bool is_estimate = false;
  bool is_least = false;  ///< memory, of a bound or of the part of a run that was played
  Bytes margin = {};      ///< that should stay free, where that is more than the inputs' margin
  std::string text;       ///< of a refusal
};

/// "slower", "out_of_memory", ...
std::string_view name_of(Reason reason);

struct Ranked {
  std::size_t choice = 0;
  Trial trial;
  FullSimulation full;
};

struct SearchResult {
  std::vector<Ranked> ranked;   ///< best first, at most `places`; all of them fit
  std::vector<Ranked> wanted;   ///< in order of SearchOptions::wanted, but for the refused
  std::vector<Outcome> others;  ///< by index of the choice
  std::vector<Choice> opened;   ///< of groups: numbered behind the choices that were given
  /// Members of groups that did not become choices: their bounds, or those of their group, say that
  /// none comes to a place. Of an interrupted search some were not reached.
  std::size_t in_groups = 0;
  std::size_t simulated = 0;
  bool interrupted = false;
};

/// Ranks `choices`, of which those that need more memory than the device has are left out. Where
/// the inputs have findings, choices are estimated, and those tried out with all blocks that may
/// come to a place by an estimate that is off by its slack (sim/planner/estimate.h).
SearchResult search(const std::vector<Choice>& choices, const TrialInputs& inputs,
                    const SearchOptions& options);

/// The place that a choice would have had to beat.
struct PlaceToBeat {
  std::string name;  ///< "the last place", "place 2 of the same strategy"
  Duration time;     ///< of its step
};

/// One line on why a choice is not ranked: "takes at least 101 ms a step, 20.2% more than the last
/// place (84.0 ms)", "out of memory: needs at least 91.4 GiB of the 79.1 GiB there are".
/// `slowest`: of a step that is allowed, "500 ms (--deadline 2)".
std::string why(const Outcome& outcome, const TrialInputs& inputs,
                const std::optional<PlaceToBeat>& place, std::string_view slowest = {});

}  // namespace shardscope::planner
