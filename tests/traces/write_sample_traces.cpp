// write_sample_traces FOLDER: traces of two ranks, and our figures of them in expected.txt (JSON;
// HTA takes every .json in a folder for a trace), by our definitions and by HTA's, for
// hta_check.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <random>

#include "core/format/atomic_file.h"
#include "tests/traces/sample_traces.h"
#include "traces/analysis.h"
#include "traces/chrome_writer.h"
#include "traces/import/import.h"
#include "traces/import/trace_report.h"

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

/// An accounting in HTA's terms: its non-compute time holds exposed communication and exposed
/// copies.
std::string expected_json(int rank, const Accounting& all) {
  const auto microseconds = [](Duration time) { return static_cast<double>(time.ns) / 1000; };
  return fmt::format(
      "\"{}\": {{\"span_us\": {}, \"compute_us\": {}, \"non_compute_us\": {}, \"idle_us\": {}, "
      "\"overlap_percent\": {}}}",
      rank, microseconds(all.span), microseconds(all.compute),
      microseconds(all.exposed_communication + all.exposed_copy), microseconds(all.idle),
      100.0 * all.overlap.seconds() / all.communication.seconds());
}

std::string joined(const std::vector<std::string>& texts) {
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

/// What `report --definitions hta` says of the folder.
std::vector<std::string> hta_figures(const std::filesystem::path& folder) {
  std::vector<ImportedTrace> traces = import_traces(folder);
  for (ImportedTrace& trace : traces) classify(trace, class_rules(Definitions::hta));
  std::vector<std::string> figures;
  for (const RankReport& rank : report_of(traces, {.definitions = Definitions::hta}).ranks)
    figures.push_back(expected_json(static_cast<int>(rank.rank), rank.time));
  return figures;
}

}  // namespace
}  // namespace shardscope

int main(int count, char** arguments) {
  using namespace shardscope;
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  std::vector<std::string> own;
  for (const int rank : {0, 1}) {
    const Trace trace = random_trace(rank);
    write_chrome_trace(trace, folder / fmt::format("trace.{}.json.gz", rank));
    own.push_back(expected_json(rank, account(trace, device_window(trace))));
  }
  const std::string hta = joined(hta_figures(folder));
  write_atomically(folder / "expected.txt",
                   fmt::format("{{\"own\": {}, \"hta\": {}}}\n", joined(own), hta));
}
