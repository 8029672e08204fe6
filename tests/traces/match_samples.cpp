#include "tests/traces/match_samples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/traces/chrome_text.h"

namespace shardscope::samples {

PredictedRun::PredictedRun(int world) {
  trace_.kind = TraceKind::predicted;
  trace_.world = world;
  trace_.tracks = {{.name = "compute", .stream = Stream::compute}};
}

PredictedRun& PredictedRun::step() {
  ++step_;
  micro_batch_ = 0;
  return *this;
}

PredictedRun& PredictedRun::micro_batch() {
  ++micro_batch_;
  return *this;
}

PredictedRun& PredictedRun::collective(OperationKind kind, Phase phase, std::string unit,
                                       std::int64_t in, std::int64_t out) {
  std::vector<int> ranks;
  for (int rank = 0; rank < trace_.world; ++rank) ranks.push_back(rank);
  add({.name = std::string(name_of(kind)),
       .kind = kind,
       .phase = phase,
       .unit = std::move(unit),
       .group = "world",
       .ranks = std::move(ranks),
       .elements_in = in,
       .elements_out = out});
  return *this;
}

PredictedRun& PredictedRun::compute(std::string name, std::string_view shapes, std::string unit) {
  add({.name = std::move(name),
       .phase = Phase::forward,
       .unit = std::move(unit),
       .group = {},
       .ranks = {},
       .shapes = intern(shapes)});
  return *this;
}

void PredictedRun::add(OperationFacts facts) {
  facts.operation = OperationId::of(trace_.facts.size());
  facts.micro_batch = micro_batch_;
  const auto start = static_cast<std::int64_t>(trace_.facts.size()) * 1000;
  trace_.spans.push_back(
      {.start = {start},
       .duration = {1000},
       .name = intern(facts.name),
       .span_class = is_collective(facts.kind) ? SpanClass::communication : SpanClass::compute,
       .operation = facts.operation,
       .step = step_});
  trace_.facts.push_back(std::move(facts));
}

std::uint32_t PredictedRun::intern(std::string_view name) {
  const auto found = std::find(trace_.names.begin(), trace_.names.end(), name);
  if (found != trace_.names.end()) return static_cast<std::uint32_t>(found - trace_.names.begin());
  trace_.names.emplace_back(name);
  return static_cast<std::uint32_t>(trace_.names.size() - 1);
}

std::string host_event(std::string_view category, std::string_view name, int start, int duration,
                       std::string_view dims) {
  const std::string arguments =
      dims.empty() ? "" : fmt::format(R"(, "args": {{"Input Dims": {}}})", dims);
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": 2, "ts": {}, "dur": {}{}}})",
      category, name, start, duration, arguments);
}

std::string host_operator(std::string_view name, int start, int duration, std::string_view dims) {
  return host_event("cpu_op", name, start, duration, dims);
}

std::string annotation(std::string_view name, int start, int duration) {
  return host_event("user_annotation", name, start, duration);
}

ImportedTrace traced(const std::vector<std::string>& events, int world) {
  return imported(
      chrome_text(fmt::format("{}", fmt::join(events, ",\n")),
                  fmt::format(R"("distributedInfo": {{"rank": 0, "world_size": {}}})", world)));
}

}  // namespace shardscope::samples
