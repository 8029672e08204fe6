#include "backend/profile/processor_meter.h"

#include <algorithm>

#include "backend/executor/step_recorder.h"

namespace shardscope {

std::string ProcessorMeter::open(const OpenPerfEvent& call) {
  for (const ProfiledThread& thread : threads_) {
    OpenedCounter opened = PerfCounter::open(thread.id, call);
    if (!opened.counter) {
      close();
      return opened.why_not;
    }
    counters_.push_back(std::move(*opened.counter));
  }
  return "";
}

std::optional<ProcessorUse> ProcessorMeter::read() const {
  if (is_counting()) return read_counts();
  ProcessorUse sum;
  for (const ProfiledThread& thread : threads_) sum.processor_ns += processor_ns(thread);
  return sum;
}

std::optional<ProcessorUse> ProcessorMeter::read_counts() const {
  ProcessorUse sum;
  for (const PerfCounter& counter : counters_) {
    const bool is_own = &counter == &counters_.front();
    const std::optional<CycleCounts> counts = is_own ? counter.read_own() : counter.read();
    if (!counts) return std::nullopt;
    sum.counts.cycles += counts->cycles;
    sum.counts.instructions += counts->instructions;
  }
  return sum;
}

std::int64_t ProcessorMeter::reading_ns() const {
  constexpr std::int64_t readings = 64;
  const std::int64_t begin = monotonic_ns();
  for (std::int64_t i = 0; i < readings; ++i) read();
  return (monotonic_ns() - begin) / readings;
}

double ProcessorMeter::share_not_counted() const {
  double largest = 0;
  for (const PerfCounter& counter : counters_)
    largest = std::max(largest, counter.share_not_counted());
  return largest;
}

}  // namespace shardscope
