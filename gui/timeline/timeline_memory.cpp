#include "gui/timeline/timeline_memory.h"

#include <algorithm>

#include "gui/data/source_match.h"

namespace shardscope::gui {

MemoryTrackPointer memory_track(const ScenarioPointer& scenario, SideKind kind, std::size_t rank,
                                const MemoryPictureRequest& axis,
                                std::span<const MemoryTrackPointer> known) {
  for (const MemoryTrackPointer& track : known)
    if (track && track->scenario == scenario && track->side == kind && track->rank == rank &&
        track->axis == axis)
      return track;
  const Side& side = *scenario->side(kind);
  if (rank >= side.ranks.size()) return nullptr;
  const MemorySource wanted{.side = kind,
                            .kind = MemorySource::Kind::rank,
                            .index = rank,
                            .rank = side.ranks[rank]->rank};
  const auto source = matching_source(memory_sources(side), wanted);
  if (!source) return nullptr;
  MemoryTrack track{.scenario = scenario,
                    .side = kind,
                    .rank = rank,
                    .curve = memory_side_curve(*scenario, *source, axis),
                    .highest = {},
                    .axis = axis};
  if (track.curve.levels.empty()) return nullptr;
  for (const MemoryLevel& level : track.curve.levels.levels)
    track.highest = std::max({track.highest, level.bytes.total(), level.reserved});
  return std::make_shared<const MemoryTrack>(std::move(track));
}

const MemoryLevel* level_at(const MemoryTrack& track, double time) {
  const auto level = track.curve.levels.at(time);
  return level ? &track.curve.levels.levels[*level] : nullptr;
}

}  // namespace shardscope::gui
