// The tracks of a trace under construction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "traces/import/imported_trace.h"

namespace shardscope {

/// What an event says about where it lies; process and thread are JSON text.
struct TrackKey {
  TrackKind kind = TrackKind::thread;
  std::string_view process, thread;
  std::int64_t device = -1;
  std::int64_t stream = -1;
};

/// Numbers tracks in order of first appearance. Beyond 131,072 of them, which no program has, all
/// others are the last one.
class KinetoTracks {
 public:
  std::uint32_t of(const TrackKey& key);
  /// Gives a thread a name; it appears even if it has no events.
  void name(std::string_view process, std::string_view thread, std::string_view name);
  /// The tracks, with the names of the threads they belong to.
  std::vector<ImportedTrack> finish() &&;

 private:
  std::string last_key_;
  std::uint32_t last_ = no_name;
  std::string key_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::unordered_map<std::string, std::vector<std::string>> names_;  ///< by place
  std::vector<ImportedTrack> tracks_;
};

}  // namespace shardscope
