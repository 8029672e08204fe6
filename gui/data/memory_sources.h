// Where a side's memory over time can be read from, and reading it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/data/memory_bands.h"
#include "gui/data/scenario.h"

namespace shardscope::gui {

/// Of a MemoryDevice: c10's DeviceType::CPU and CUDA (c10/core/DeviceType.h).
inline constexpr std::int64_t host_device_type = 0;
inline constexpr std::int64_t gpu_device_type = 1;

/// One curve of a side.
struct MemorySource {
  enum class Kind : std::uint8_t {
    rank,             ///< samples of a trace of ours, or of a prediction
    profiler_events,  ///< [memory] events of a Kineto trace
    snapshot,         ///< of a device
    timeline,         ///< of torch.profiler
  };
  SideKind side = SideKind::profiled;
  Kind kind = Kind::rank;
  std::size_t index = 0;    ///< into the side's list of that kind
  std::int64_t device = 0;  ///< of a snapshot its ordinal; of [memory] events their place
  std::optional<std::int64_t> rank = {};  ///< none: it does not say
  std::optional<MemoryDevice> on = {};    ///< none: it does not say
  std::string label;                      ///< "rank 0", "snapshot.pickle, device 0"
  bool operator==(const MemorySource&) const = default;
};

std::vector<MemorySource> memory_sources(const Side& side);

/// Whose clock stamps a memory curve. PyTorch allocates when the host issues an operation, which
/// the device runs later.
enum class MemoryClock : std::uint8_t { host, device };
/// "host's clock", "device's clock"
std::string_view name_of(MemoryClock clock);

/// What is shown of a source. Samples that a run of our own took when operations ran are on the
/// device's clock, and predicted ones are laid on it. All others are on that of the host, which
/// asks for memory, and so are predicted ones beside them.
MemoryClock memory_clock(const Scenario& scenario, const MemorySource& source);

/// Times of a rank's sources are its trace's clock; of a snapshot or timeline without one, since
/// its first event. What bands hold is allocated by tensors; of a snapshot active.
/// `clock`: `device` lays predicted samples of the host on the begins of the compute that they are
/// for, in their order.
MemoryLevels memory_levels(const Side& side, const MemorySource& source,
                           MemoryClock clock = MemoryClock::host);

/// What it has beside bands: false where the levels' figures are 0 throughout.
bool has_reserved(const MemoryLevels& levels);
bool has_active(const MemoryLevels& levels);

/// From the first event to the last of snapshots and timelines of a side that has no trace; none of
/// others.
std::optional<TimeWindow> memory_extent(const Side& side);

}  // namespace shardscope::gui
