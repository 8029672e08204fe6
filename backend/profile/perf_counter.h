// Cycles and instructions of one thread, as the processor counts them (perf_event_open(2)).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/base/file_descriptor.h"

struct perf_event_attr;
struct perf_event_mmap_page;

namespace shardscope {

/// Since some moment; only differences mean something.
struct CycleCounts {
  std::uint64_t cycles = 0;
  std::uint64_t instructions = 0;
  bool operator==(const CycleCounts&) const = default;
};

/// perf_event_open(2) for `thread` in the group of the descriptor `group` (-1: a new one): a
/// descriptor, or an error number, negated.
using OpenPerfEvent = std::function<int(perf_event_attr& event, int thread, int group)>;
OpenPerfEvent perf_event_call();

struct OpenedCounter;

/// The owner of both events, one group, so that they count over the same time. They count the
/// user's side only, which needs no permission up to perf_event_paranoid 2.
class PerfCounter {
 public:
  /// For `thread` of this process.
  static OpenedCounter open(int thread, const OpenPerfEvent& call = perf_event_call());

  /// From any thread, through the kernel; nothing where it fails.
  std::optional<CycleCounts> read() const;
  /// On the counted thread itself: by the instruction rdpmc where the kernel lets the user's side
  /// have it, else as read(). Source: linux/perf_event.h, at perf_event_mmap_page.
  std::optional<CycleCounts> read_own() const;

  /// Share of the time in which the processor had no counter free for it; what was read is too
  /// little by that.
  double share_not_counted() const;

 private:
  struct Unmap {
    void operator()(perf_event_mmap_page* page) const;
  };
  struct Event {
    FileDescriptor file;
    std::unique_ptr<perf_event_mmap_page, Unmap> page;  ///< null: no rdpmc
  };
  static Event event_of(int descriptor);

  Event cycles_, instructions_;
};

/// A counter, or in words why there is none and what would help.
struct OpenedCounter {
  std::optional<PerfCounter> counter;
  std::string why_not;
};

}  // namespace shardscope
