// The last collectives of a rank, as the flight record tells of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/comm/communicator.h"
#include "core/base/dtype.h"
#include "core/base/quantities.h"

namespace shardscope {

/// scheduled: handed to the communication thread or queued on the device; started: waits for the
/// peers, or moves bytes.
enum class FlightState : std::uint8_t { scheduled, started, completed };
const char* name_of(FlightState state);

/// One collective of this rank. Times are of the steady clock; 0: not yet.
struct FlightEntry {
  std::uint64_t sequence = 0;  ///< among this rank's, from 1
  std::string operation;       ///< "all_gather"
  std::string unit;            ///< "transformer.h.3"; empty: of no unit
  std::string group;           ///< FlightRecorder::add_group; empty: not yet known
  std::uint64_t call = 0;      ///< among the group's, from 1, the same on all its ranks; 0: none
  int peer = -1;               ///< rank at the other end of a send or receive
  Bytes bytes;
  std::optional<Dtype> dtype;
  FlightState state = FlightState::scheduled;
  Duration scheduled, started, completed;
};

/// "all_gather of 4096 B, float32, unit h.3, call 17 of ranks 0-3"
std::string text_of(const FlightEntry& entry);

/// What all is known of a rank at one moment.
struct FlightSnapshot {
  std::vector<FlightEntry> entries;  ///< oldest first
  struct Group {
    std::string name;
    std::vector<int> ranks;
    std::uint64_t calls = 0;  ///< that this rank has made
  };
  std::vector<Group> groups;

  /// The oldest one that has started and not completed; null: none has.
  const FlightEntry* under_way() const;
  const FlightEntry* last_completed() const;
};

/// Keeps the last `capacity` collectives. Any thread may call; after the construction nothing is
/// allocated but by `add_group` and `snapshot`.
class FlightRecorder {
 public:
  explicit FlightRecorder(std::size_t capacity = 1024);

  /// A group of these ranks of the job, ascending. Its name is the ranks ("0-3", "0-12:4"), with
  /// "#2" behind it where it is the second group of the same ranks.
  std::size_t add_group(std::vector<int> ranks);

  struct Call {
    std::string_view operation;
    std::size_t group = 0;
    Bytes bytes;
    std::optional<Dtype> dtype = {};
    int peer = -1;
  };
  /// The next call that was not yet announced will be this one.
  void announce(const PlannedCollective& planned, std::size_t group);
  /// The next call is made now: the oldest announced one, if there is one. Returns its sequence.
  std::uint64_t call(const Call& made);
  void start(std::uint64_t sequence);
  void complete(std::uint64_t sequence);

  /// Since when the oldest one that has started and not completed is under way.
  std::optional<Duration> under_way_since() const;
  FlightSnapshot snapshot() const;

 private:
  FlightEntry& slot(std::uint64_t sequence);
  const FlightEntry& slot(std::uint64_t sequence) const;
  FlightEntry* find(std::uint64_t sequence);

  mutable std::mutex mutex_;
  std::vector<FlightEntry> ring_;
  std::vector<FlightSnapshot::Group> groups_;
  std::uint64_t announced_ = 0;  ///< the highest sequence that was given out
  std::uint64_t called_ = 0;
  std::uint64_t completed_ = 0;  ///< all up to this one are
};

/// "0-3,8" of 0, 1, 2, 3, 8; "0-12:4" of 0, 4, 8, 12.
std::string rank_ranges(const std::vector<int>& ranks);

/// Now, on the steady clock.
Duration steady_now();

}  // namespace shardscope
