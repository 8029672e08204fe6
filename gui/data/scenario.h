// Scenario: one way to train, as it was predicted and as it was measured. What every view shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/imported_trace.h"
#include "traces/import/memory_snapshot.h"
#include "traces/import/memory_timeline.h"
#include "traces/intervals.h"
#include "traces/match/match.h"
#include "traces/predicted_buffers.h"
#include "traces/summary.h"
#include "traces/trace.h"

namespace shardscope::gui {

enum class SideKind : std::uint8_t { predicted, profiled };
std::string_view name_of(SideKind kind);

/// What was predicted, or what was measured: a run's traces of some or all ranks. Values that are
/// never changed once they are read, so that workers and views share them.
struct Side {
  SideKind kind = SideKind::predicted;
  std::filesystem::path source;  ///< the file or folder it was read from
  std::optional<Summary> summary;
  /// By rank. A prediction has one, which stands for all of them, or of a pipeline one of every
  /// stage (gui/data/predicted_place.h). Of an imported file, its device
  /// spans (or its host's operators) as our own kind.
  std::vector<std::shared_ptr<const Trace>> ranks;
  /// As the foreign files have them, in the order of `ranks`; empty of runs of our own.
  std::vector<std::shared_ptr<const ImportedTrace>> imported;
  std::vector<std::shared_ptr<const MemorySnapshot>> snapshots;
  std::vector<std::shared_ptr<const MemoryTimeline>> timelines;
  std::vector<PredictedBuffer> buffers;  ///< of a prediction; empty: the run does not have them

  bool has_trace() const { return !ranks.empty(); }
};

/// How an imported side was laid beside the prediction, one for each of its ranks.
struct SideMatch {
  std::vector<RankMatch> ranks;
  std::vector<std::shared_ptr<const Trace>> matched;  ///< spans of matched operations only
};

enum class Severity : std::uint8_t {
  note,
  holds,  ///< an identity that was checked
  warning,
  broken,  ///< an identity that does not hold
  error,
};
std::string_view name_of(Severity severity);

/// One thing that a reader of the figures should know: what was loaded, skipped, guessed, and
/// which identities hold.
struct Finding {
  Severity severity = Severity::note;
  std::string where;    ///< file, rank or side
  std::string what;     ///< one line with its numbers
  bool is_gap = false;  ///< figures do not stand for the whole run: shown on opening
};

struct Scenario {
  std::string label;           ///< "full_shard x2"
  std::string settings;        ///< beside it: "batch 4 x 2, checkpointing full, model gpt2"
  std::filesystem::path path;  ///< that it was opened by; empty: made by What-if
  std::optional<Side> predicted, profiled;
  std::optional<SideMatch> match;  ///< of an imported side that has a prediction
  std::vector<Finding> findings;
  bool is_being_read =
      false;  ///< only figures are there yet: traces follow in one of the same path

  const Side* side(SideKind kind) const;
  /// The profiled summary, else the predicted one; null without either.
  const Summary* summary() const;
};

using ScenarioPointer = std::shared_ptr<const Scenario>;

/// The step of rank `rank` that stands for the run; all there is where no step is marked.
TimeWindow shown_step(const Trace& trace);

}  // namespace shardscope::gui
