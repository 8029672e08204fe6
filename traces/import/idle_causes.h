// Why a device, or one of its streams, did nothing between two of its activities.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/device_activity.h"
#include "traces/import/hta_events.h"
#include "traces/import/imported_trace.h"

namespace shardscope {

enum class IdleCause : std::uint8_t {
  host,           ///< what ran next was launched only after the one before it had ended
  communication,  ///< a collective of another stream ended just before what ran next began
  compute,        ///< so did a kernel or a copy of another stream
  kernel_gap,     ///< the gap between two kernels is shorter than a threshold
  other,
};
inline constexpr std::array idle_causes{IdleCause::host, IdleCause::communication,
                                        IdleCause::compute, IdleCause::kernel_gap,
                                        IdleCause::other};
std::string_view name_of(IdleCause cause);

/// The idle time of one stream, or of the whole device, between its first activity and its last.
struct IdleTime {
  std::optional<std::string> stream;          ///< none: the device, when no stream of it is busy
  SpanClass span_class = SpanClass::compute;  ///< what took most of the stream's time
  std::int64_t gaps = 0;
  std::array<Duration, idle_causes.size()> by_cause{};
  Duration& of(IdleCause cause) { return by_cause[static_cast<std::size_t>(cause)]; }
  Duration of(IdleCause cause) const { return by_cause[static_cast<std::size_t>(cause)]; }
  Duration total() const;
};

/// Shorter gaps are what it takes to begin a kernel that waits for nothing; HTA's default.
constexpr Duration default_kernel_gap{30'000};

/// The device first, whose causes sum to the idle time of its accounting, then its streams. A gap's
/// cause is what ended last of the things that the next activity had to wait for: its launch by the
/// host (the begin of that call), and activities of other streams that were running in the gap and
/// ended less than `kernel_gap` before it began. Collectives go before kernels that end at the same
/// time.
std::vector<IdleTime> idle_times(const ImportedTrace& trace, const DeviceActivities& device,
                                 Duration kernel_gap = default_kernel_gap);

/// HTA's host wait, kernel wait and other, of each stream; overlapping kernels take time away, as
/// there. Source: HolisticTraceAnalysis 0.5.0, hta/analyzers/breakdown_analysis.py
/// (_analyze_idle_time_for_stream).
std::vector<IdleTime> hta_idle_times(const std::vector<HtaEvent>& events,
                                     Duration kernel_gap = default_kernel_gap);

}  // namespace shardscope
