#include "backend/profile/nccl_profile.h"

#include <algorithm>
#include <string>
#include <vector>

#include "backend/profile/nccl_events.h"
#include "traces/operation_spans.h"

namespace shardscope {
namespace {

/// Collectives that a window keeps, for that many of its steps.
constexpr std::size_t kept_steps = 64;

class NcclProbe : public Probe {
 public:
  explicit NcclProbe(const Schedule& schedule) : schedule_(schedule) {}

  void begin_step(std::int64_t step) override { nccl_events().begin_step(step); }
  void end_step() override { nccl_events().end_step(); }
  void begin(OperationId id) override {
    if (is_collective(schedule_.at(id).kind)) nccl_events().begin(id);
  }
  void end(OperationId) override { nccl_events().end(); }

 private:
  const Schedule& schedule_;
};

/// Measures of spans, by span.
class MeasureTable {
 public:
  explicit MeasureTable(Trace& trace) : trace_(trace), spans_(trace) {}

  void add(const NcclCollective& collective) {
    const auto span = spans_.find(collective.step, collective.operation);
    if (!span) return;
    add(*span, steps_, collective.network_steps);
    add(*span, sent_, collective.sent.count);
    add(*span, received_, collective.received.count);
  }

  /// An operation that called NCCL twice has both.
  void finish() {
    const auto key = [](const SpanMeasure& row) { return std::pair(row.span, row.measure); };
    std::ranges::sort(rows_, {}, key);
    for (const SpanMeasure& row : rows_) {
      std::vector<SpanMeasure>& all = trace_.span_measures;
      if (&row != rows_.data() && key(all.back()) == key(row))
        all.back().value += row.value;
      else
        all.push_back(row);
    }
    sort_measures(trace_);
  }

 private:
  void add(std::uint32_t span, std::uint16_t measure, std::int64_t value) {
    rows_.push_back({.span = span, .measure = measure, .value = value});
  }

  Trace& trace_;
  OperationSpans spans_;
  std::uint16_t steps_ = intern_measure(trace_, "network_steps");
  std::uint16_t sent_ = intern_measure(trace_, "network_sent_bytes");
  std::uint16_t received_ = intern_measure(trace_, "network_received_bytes");
  std::vector<SpanMeasure> rows_;
};

class NcclInstrument : public Instrument {
 public:
  void start() override { nccl_events().open_window(); }
  void stop() override { nccl_events().close_window(); }

  void add_to(Trace& trace, const MeasuredWindow&) override {
    if (nccl_events().interface() == NcclEvents::Interface::none) {
      trace.recording.notes.push_back(
          "algorithms and network steps of collectives are not known: this NCCL took no profiler "
          "plugin of ours (2.27 or later does, unless NCCL_PROFILER_PLUGIN names another)");
      return;
    }
    add_nccl_choices(trace);
    MeasureTable measures(trace);
    for (const NcclCollective& collective : nccl_events().collectives()) measures.add(collective);
    measures.finish();
    trace.recording.dropped_records += nccl_events().dropped();
  }
};

}  // namespace

std::unique_ptr<Probe> make_nccl_probe(const Schedule& schedule) {
  if (nccl_events().interface() == NcclEvents::Interface::none) return nullptr;
  const auto collectives = static_cast<std::size_t>(std::ranges::count_if(
      schedule.operations, [](const Operation& op) { return is_collective(op.kind); }));
  nccl_events().prepare(schedule.operations.size(), kept_steps * collectives);
  return std::make_unique<NcclProbe>(schedule);
}

std::unique_ptr<Instrument> make_nccl_instrument() { return std::make_unique<NcclInstrument>(); }

void add_nccl_choices(Trace& trace) {
  for (OperationFacts& facts : trace.facts)
    if (is_collective(facts.kind)) facts.choice = nccl_events().choice_of(facts.operation);
}

}  // namespace shardscope
