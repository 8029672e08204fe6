// A trace that another program wrote: its events in columns, what can be said of them at once, and
// a report of how it was read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/import/event_column.h"
#include "traces/import/text_store.h"
#include "traces/trace.h"

namespace shardscope {

constexpr std::uint32_t no_name = UINT32_MAX;  ///< of fields that index ImportedTrace::names

/// A process or thread as a file names it: mostly a number, sometimes a word.
struct PlaceName {
  std::string text;
  bool is_number = true;
  bool operator==(const PlaceName&) const = default;
};

enum class TrackKind : std::uint8_t {
  thread,       ///< of a process
  stream,       ///< of a device
  annotations,  ///< the device's copy of the host's annotations, beside a stream
};

/// Where events lie: a thread, or a stream of a device.
struct ImportedTrack {
  TrackKind kind = TrackKind::thread;
  PlaceName process, thread;
  std::int64_t device = -1;        ///< streams
  std::int64_t stream = -1;        ///< streams
  std::string scope;               ///< what a stream's number counts within ("pid 7 context 1")
  std::vector<std::string> names;  ///< given to the thread, as they come
  std::uint32_t lanes = 0;         ///< that its events need to be drawn one beside the other
  std::int64_t overlaps = 0;       ///< events that start before an earlier one of a stream ends
};

/// The events, by dense id in the order of the file. Times are nanoseconds after
/// ImportedTrace::base_ns. 46 bytes an event.
struct EventColumns {
  EventColumn<std::int64_t> start_ns, duration_ns;
  EventColumn<std::uint64_t> text_offset;  ///< of the event's JSON in the file's text
  EventColumn<std::uint32_t> text_length;
  EventColumn<std::uint32_t> name;      ///< index into names
  EventColumn<std::uint32_t> track;     ///< index into tracks
  EventColumn<std::uint32_t> link;      ///< correlation, or a flow's id; 0: none (`link_of`)
  EventColumn<std::uint16_t> category;  ///< index into categories
  EventColumn<std::uint16_t> lane;      ///< within its track; 65535 and over share the last
  EventColumn<char> phase;              ///< of the Chrome format: X, i, M, s, f, C, ...
  EventColumn<SpanClass> span_class;

  std::size_t size() const { return start_ns.size(); }
  std::int64_t end_ns(std::size_t i) const { return start_ns[i] + duration_ns[i]; }
  std::size_t allocated_bytes() const;
};

/// A change of allocated memory on one device.
struct MemoryChange {
  std::uint32_t event = 0;   ///< index into the events
  std::uint32_t device = 0;  ///< index into memory_devices
  std::int64_t order = 0;    ///< among changes of one time
  Bytes bytes;               ///< signed
  Bytes allocated;           ///< afterwards
  Bytes reserved;            ///< afterwards
};

/// PyTorch's numbers: type 0 is the CPU (id -1), 1 CUDA, 6 HIP.
struct MemoryDevice {
  std::int64_t type = 0;
  std::int64_t id = 0;
  auto operator<=>(const MemoryDevice&) const = default;
};

/// What an event says about a collective. Absent numbers are -1, absent names no_name.
struct CommunicationRow {
  std::uint32_t event = 0;
  std::uint32_t collective = no_name;  ///< "allreduce"
  std::uint32_t group = no_name;       ///< "Process Group Name"
  std::uint32_t group_description = no_name;
  std::uint32_t dtype = no_name;
  std::uint32_t ranks = no_name;  ///< "[0, 1]"
  std::int64_t group_size = -1;
  std::int64_t elements_in = -1;
  std::int64_t elements_out = -1;
  std::int64_t sequence = -1;
};

struct CopiedBytes {
  std::uint32_t event = 0;
  Bytes bytes;
};

/// How a file was read. Nothing is left out without a line here.
struct ImportReport {
  std::string format;  ///< "kineto"
  std::int64_t events_read = 0;
  std::int64_t events_kept = 0;
  std::map<std::string, std::int64_t> skipped;  ///< reason: count of events that were lost
  std::map<std::string, std::int64_t> odd;      ///< what: count of events kept in spite of it
  std::vector<std::string> guessed;             ///< what had to be assumed of the file as a whole
  std::int64_t text_bytes = 0;                  ///< decompressed
};

struct ImportedTrace {
  std::string file;  ///< "trace.json.gz", "ranks.tar.gz:rank0.json"
  std::optional<int> rank, world;
  std::int64_t base_ns = 0;  ///< Unix time of time 0, where the file has it
  std::vector<std::pair<std::string, std::string>> header;  ///< keys beside the events, JSON values
  std::vector<std::string> names;                           ///< each once
  std::vector<std::string> categories;                      ///< each once; "" is none
  std::vector<ImportedTrack> tracks;
  EventColumns events;
  std::vector<std::uint32_t> by_track;  ///< spans by track, start and falling duration
  std::vector<MemoryDevice> memory_devices;
  EventColumn<MemoryChange> memory;             ///< in the order of the file
  std::vector<CommunicationRow> communication;  ///< in the order of the file
  std::vector<CopiedBytes> copied_bytes;        ///< of copies that say it, by event
  std::shared_ptr<const TextStore> text;
  ImportReport report;

  std::string_view name_of(std::size_t event) const { return names[events.name[event]]; }
  std::string_view category_of(std::size_t event) const {
    return categories[events.category[event]];
  }
  const ImportedTrack& track_of(std::size_t event) const { return tracks[events.track[event]]; }
  /// The header's JSON text under `key`; empty if it has none.
  std::string_view header_text(std::string_view key) const;
  /// The event's JSON text as it stands in the file, read again.
  std::string text_of(std::size_t event) const;
  /// Of all columns and tables; the text is not in memory.
  std::size_t allocated_bytes() const;
};

/// Sorts `by_track`, lays spans of one track that overlap on lanes one beside the other, and
/// counts the overlaps of streams. To be called once all events are there.
void lay_out(ImportedTrace& trace);

}  // namespace shardscope
