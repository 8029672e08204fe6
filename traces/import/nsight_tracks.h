// Where the rows of an export of Nsight Systems lie.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "traces/import/imported_trace.h"

namespace shardscope {

/// A stream counts within its process and context.
struct NsightStream {
  std::int64_t device = -1;
  std::int64_t process = 0;
  std::int64_t context = 0;
  std::int64_t stream = 0;
};

/// Tracks in order of first use; at most 131,072, the last one for all that are more.
class NsightTracks {
 public:
  std::uint32_t stream(const NsightStream& of);
  /// The track of what is no activity, beside that of the stream.
  std::uint32_t beside(const NsightStream& of);
  std::uint32_t thread(std::int64_t process, std::int64_t thread);
  /// Names a thread that has a track.
  void name_thread(std::int64_t process, std::int64_t thread, const std::string& name);
  bool is_full() const { return is_full_; }
  std::vector<ImportedTrack> take() && { return std::move(tracks_); }

 private:
  using Key = std::tuple<TrackKind, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::uint32_t track(const Key& key, const std::function<ImportedTrack()>& make);
  std::uint32_t of_device(TrackKind kind, const NsightStream& of);

  std::vector<ImportedTrack> tracks_;
  std::map<Key, std::uint32_t> numbers_;
  bool is_full_ = false;
};

}  // namespace shardscope
