// write_sample_traces FOLDER: traces of two ranks, and our figures of them in expected.txt (JSON;
// HTA takes every .json in a folder for a trace), for hta_check.py.
#include <fmt/format.h>

#include <filesystem>
#include <random>

#include "core/format/atomic_file.h"
#include "tests/traces/sample_traces.h"
#include "traces/analysis.h"
#include "traces/chrome_writer.h"

namespace shardscope {
namespace {

/// A few hundred spans of compute, collectives and copies in two steps, at nanoseconds that fall
/// anywhere.
Trace random_trace(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank));
  std::uniform_int_distribution<std::int64_t> gap(0, 40000), length(100, 60000);
  Trace trace = samples::two_steps();
  trace.rank = rank;
  trace.local_rank = rank;
  trace.spans.clear();
  const SpanClass classes[] = {SpanClass::compute, SpanClass::communication,
                               SpanClass::communication, SpanClass::copy};
  const std::uint32_t operations[] = {
      1, 0, 3, 4};  // forward, all-gather, reduce-scatter, copy of the sample
  for (std::size_t which = 0; which < 4; ++which) {
    std::int64_t clock = gap(random);
    for (int i = 0; i < 100; ++i) {
      const std::int64_t start = clock + gap(random);
      clock = start + length(random);
      Span& span =
          samples::add_span(trace, classes[which], static_cast<int>(which) + 1, start, clock);
      span.operation = {operations[which]};
      span.name = operations[which];
      span.step = i < 50 ? 1 : 2;
    }
  }
  return trace;
}

/// Our accounting in HTA's terms: its non-compute time holds exposed communication and exposed
/// copies.
std::string expected_json(const Trace& trace) {
  const Accounting all = account(trace, device_window(trace));
  const auto microseconds = [](Duration time) { return static_cast<double>(time.ns) / 1000; };
  return fmt::format(
      "\"{}\": {{\"span_us\": {}, \"compute_us\": {}, \"non_compute_us\": {}, \"idle_us\": {}, "
      "\"overlap_percent\": {}}}",
      trace.rank, microseconds(all.span), microseconds(all.compute),
      microseconds(all.exposed_communication + all.exposed_copy), microseconds(all.idle),
      100.0 * all.overlap.seconds() / all.communication.seconds());
}

}  // namespace
}  // namespace shardscope

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  std::string expected;
  for (const int rank : {0, 1}) {
    const shardscope::Trace trace = shardscope::random_trace(rank);
    shardscope::write_chrome_trace(trace, folder / fmt::format("trace.{}.json.gz", rank));
    expected += (rank == 0 ? "" : ", ") + shardscope::expected_json(trace);
  }
  shardscope::write_atomically(folder / "expected.txt", "{" + expected + "}\n");
}
