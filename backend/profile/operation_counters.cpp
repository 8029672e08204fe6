#include "backend/profile/operation_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "traces/operation_spans.h"

namespace shardscope {
namespace {

/// Time without counters from which on it is said.
constexpr double not_counted_tolerance = 0.001;

struct Measure {
  std::string_view name;
  bool is_counted;  ///< by the processor's counters
  std::int64_t (*value)(const ProcessorUse& begin, const ProcessorUse& end);
};
constexpr std::array<Measure, 3> all_measures{{
    {"cycles", true,
     [](const ProcessorUse& begin, const ProcessorUse& end) {
       return static_cast<std::int64_t>(end.counts.cycles - begin.counts.cycles);
     }},
    {"instructions", true,
     [](const ProcessorUse& begin, const ProcessorUse& end) {
       return static_cast<std::int64_t>(end.counts.instructions - begin.counts.instructions);
     }},
    {"processor_ns", false,
     [](const ProcessorUse& begin, const ProcessorUse& end) {
       return end.processor_ns - begin.processor_ns;
     }},
}};

}  // namespace

OperationThreads threads_of(Executor& executor, int kernel_threads) {
  OperationThreads threads{.compute = team_of_this_thread(kernel_threads), .communication = {}};
  executor.between_steps([&threads] { threads.communication = this_thread(); });
  return threads;
}

OperationCounters::OperationCounters(const Schedule& schedule, OperationThreads threads,
                                     OpenPerfEvent call)
    : schedule_(schedule),
      call_(std::move(call)),
      compute_{.meter = ProcessorMeter(std::move(threads.compute)), .last = {}},
      communication_{.meter = ProcessorMeter({threads.communication}), .last = {}} {}

/// All threads are counted or none, so that operations can be compared.
void OperationCounters::start() {
  why_not_counted_ = compute_.meter.open(call_);
  if (why_not_counted_.empty()) why_not_counted_ = communication_.meter.open(call_);
  if (!why_not_counted_.empty()) compute_.meter.close();
  counted_ = compute_.meter.is_counting();
  reading_ns_ = compute_.meter.reading_ns();
  steps_.clear();
  lay_out_step();
}

void OperationCounters::stop() {
  share_not_counted_ =
      std::max(compute_.meter.share_not_counted(), communication_.meter.share_not_counted());
  compute_.meter.close();
  communication_.meter.close();
}

void OperationCounters::lay_out_step() {
  steps_.push_back({.step = 0, .operations = {schedule_.operations.size(), MeasuredOperation{}}});
}

void OperationCounters::begin_step(std::int64_t step) {
  steps_.back().step = step;
  compute_.last = communication_.last = std::nullopt;
}

OperationCounters::Threads& OperationCounters::threads_of(OperationId operation) {
  return is_collective(schedule_.at(operation).kind) ? communication_ : compute_;
}

void OperationCounters::begin(OperationId operation) {
  const Threads& threads = threads_of(operation);
  const bool reads = reading_ns_ <= cheap_reading_ns || !threads.last;
  steps_.back().operations[operation.value].begin = reads ? threads.meter.read() : threads.last;
}

void OperationCounters::end(OperationId operation) {
  Threads& threads = threads_of(operation);
  threads.last = threads.meter.read();
  steps_.back().operations[operation.value].end = threads.last;
}

void OperationCounters::add_to(Trace& trace, const MeasuredWindow&) {
  const OperationSpans spans(trace);
  for (const MeasuredStep& step : steps_) add_step(trace, spans, step);
  sort_measures(trace);
  trace.recording.notes.push_back(how_measured());
}

void OperationCounters::add_step(Trace& trace, const OperationSpans& spans,
                                 const MeasuredStep& step) const {
  for (std::size_t i = 0; i < step.operations.size(); ++i) {
    const auto& [begin, end] = step.operations[i];
    const std::optional<std::uint32_t> span = spans.find(step.step, OperationId::of(i));
    if (!begin || !end || !span) continue;
    for (const Measure& measure : all_measures) {
      if (measure.is_counted != counted_) continue;
      trace.span_measures.push_back({.span = *span,
                                     .measure = intern_measure(trace, measure.name),
                                     .value = measure.value(*begin, *end)});
    }
  }
}

std::string OperationCounters::how_measured() const {
  std::string text =
      counted_ ? "cycles and instructions" : "processor time in place of cycles and instructions";
  text += fmt::format(", {} ns a reading of {} thread{}", reading_ns_, compute_.meter.threads(),
                      compute_.meter.threads() == 1 ? "" : "s");
  if (!counted_) text += ": " + why_not_counted_;
  if (share_not_counted_ > not_counted_tolerance)
    text += fmt::format("; too small by {:.1f}%, as the processor had no counter free then",
                        share_not_counted_ * 100);
  return text;
}

}  // namespace shardscope
