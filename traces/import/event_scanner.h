// Finds the events of a Chrome trace in a stream of text: one bad event costs one event.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/json_scanner.h"
#include "traces/import/text_input.h"
#include "traces/import/text_store.h"

namespace shardscope {

/// One event as it stands in the file: the JSON text of each field, empty where there is none; a
/// string's quotes are part of it. Valid until the next event.
struct RawEvent {
  std::string_view phase, category, name, process, thread, start, duration, id, arguments;
  std::uint64_t offset = 0;  ///< of the event's text in the file's
  std::uint32_t length = 0;
  ScanNotes notes;
};

/// Bytes of the whole text, and how many were looked at to find its events: where something is
/// damaged, some more than once, but altogether at most 128 MiB and 8 times the text.
struct ScannedText {
  std::int64_t bytes = 0;
  std::int64_t scanned = 0;
};

/// Takes what the scanner finds, in the order of the file.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// A key beside traceEvents, with the JSON text of its value.
  virtual void header(std::string_view key, std::string_view value) = 0;
  virtual void event(const RawEvent& event) = 0;
  /// An event that could not be read.
  virtual void lost(std::string_view reason) = 0;
  /// Something odd about the file as a whole.
  virtual void remark(std::string_view text) = 0;
  /// Called every few MiB with the bytes of text read; true stops the reading.
  virtual bool progress(std::int64_t text_bytes) = 0;
  /// Called last.
  virtual void end(const ScannedText& text) = 0;
};

/// Scans a trace: an object with traceEvents, or an array of events. Text goes into `store` too if
/// that is temporary. A damaged event is skipped up to where the next one begins. The text may be
/// at most `max_text_bytes`, one event or value 32 MiB. False if it was stopped.
bool scan_events(TextInput& input, TextStore& store, std::int64_t max_text_bytes, EventSink& sink);

}  // namespace shardscope
