// What threads that work together used of the processor so far.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/profile/perf_counter.h"
#include "backend/profile/profiled_thread.h"

namespace shardscope {

/// Since some moment; only differences mean something. Either of the two is measured.
struct ProcessorUse {
  CycleCounts counts;             ///< of the user's side
  std::int64_t processor_ns = 0;  ///< time on a processor
};

/// The sum over a group of threads: cycles and instructions while counters are open, else
/// processor time, which every machine gives.
class ProcessorMeter {
 public:
  /// The first of `threads`, of which there is one at least, is the one that reads.
  explicit ProcessorMeter(std::vector<ProfiledThread> threads) : threads_(std::move(threads)) {}

  /// Opens counters for all threads, or for none and says why.
  std::string open(const OpenPerfEvent& call);
  void close() { counters_.clear(); }
  bool is_counting() const { return !counters_.empty(); }

  /// On the first thread; nothing where a counter cannot be read any more.
  std::optional<ProcessorUse> read() const;
  /// What a reading costs here and now.
  std::int64_t reading_ns() const;
  /// The largest of all counters (`PerfCounter::share_not_counted`).
  double share_not_counted() const;
  std::size_t threads() const { return threads_.size(); }

 private:
  std::optional<ProcessorUse> read_counts() const;

  std::vector<ProfiledThread> threads_;
  std::vector<PerfCounter> counters_;  ///< by thread, or none
};

}  // namespace shardscope
