// write_perfetto_sample FOLDER: traces of two ranks as ranks.pftrace, and each as Chrome JSON, for
// perfetto_check.py.
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "tests/traces/sample_traces.h"
#include "traces/chrome_writer.h"
#include "traces/perfetto_writer.h"

namespace shardscope {
namespace {

/// The second rank has spans that nest, that overlap, that touch and that take no time, and holds
/// more memory than is in use.
Trace rank(int number) {
  Trace trace = samples::two_steps();
  trace.rank = trace.local_rank = number;
  if (number == 0) return trace;
  trace.base_ns += 5000;
  samples::add_span(trace, SpanClass::compute, 1, 200000, 300000);
  samples::add_span(trace, SpanClass::compute, 1, 200000, 250000);
  samples::add_span(trace, SpanClass::compute, 1, 240000, 320000);
  samples::add_span(trace, SpanClass::compute, 1, 320000, 320000);
  samples::add_span(trace, SpanClass::compute, 1, 320000, 330001);
  trace.counters = {{.name = "resident_bytes", .samples = {{{-5}, 4096}, {{70}, 1 << 20}}},
                    {.name = "operations", .samples = {{{7}, 3}}}};
  for (MemorySample& sample : trace.memory) {
    sample.active = sample.live.total() + 8_B;
    sample.reserved = 4096_B;
  }
  return trace;
}

}  // namespace
}  // namespace shardscope

// NOLINTNEXTLINE(bugprone-exception-escape): a failure may end it so
int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  const std::array ranks{shardscope::rank(0), shardscope::rank(1)};
  for (const shardscope::Trace& trace : ranks)
    shardscope::write_chrome_trace(trace, folder / fmt::format("trace.{}.json", trace.rank));
  shardscope::write_perfetto_trace(ranks, folder / "ranks.pftrace");
}
