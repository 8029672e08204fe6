#include "gui/timeline/span_details.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "traces/import/collectives.h"

namespace shardscope::gui {
namespace {

/// The call of the host that launched the span, by its correlation or by its operation; none: not
/// known.
std::optional<Duration> launched_at(const TimelineRank& rank, std::size_t index) {
  const Span& span = rank.trace->spans[index];
  if (!span.operation || rank.imported) return std::nullopt;
  std::optional<Duration> latest;
  for (const Span& other : rank.trace->spans) {
    if (other.span_class != SpanClass::host || other.operation != span.operation) continue;
    if (other.step == span.step && other.start <= span.start && (!latest || *latest < other.start))
      latest = other.start;
  }
  return latest;
}

class Details {
 public:
  Details(const TimelineData& data, const SpanPlace& place)
      : data_(data),
        place_(place),
        rank_(*data.sources[place.source]),
        lane_(lane_of(data, place)) {}

  std::vector<SpanDetail> list() {
    const TimelineTrack& track = rank_.tracks[place_.track];
    add("name", std::string(name_of(data_, place_)));
    add("of", fmt::format("{} {}, rank {}, {}", rank_.scenario->label, name_of(rank_.side),
                          rank_.trace->rank, track.label));
    add_times();
    if (track.items == LaneItems::spans) add_span(lane_.id(place_.index));
    if (track.items == LaneItems::events) add_event(lane_.id(place_.index));
    return std::move(details_);
  }

 private:
  void add(std::string what, std::string value) {
    details_.push_back({.what = std::move(what), .value = std::move(value)});
  }

  Duration duration() const { return {lane_.end(place_.index) - lane_.begin(place_.index)}; }

  void add_times() {
    const TimeRange range = axis_range(data_, place_);
    add("begin", rounded_text(Duration{static_cast<std::int64_t>(range.begin)}) + " on the axis");
    add("duration", fmt::format("{} ({} ns)", rounded_text(duration()), duration().ns));
  }

  void add_span(std::size_t index) {
    const Span& span = rank_.trace->spans[index];
    add("class", std::string(name_of(span.span_class)));
    if (span.step > 0) add("step", fmt::format("{}", span.step));
    const OperationId operation = rank_.operation_of(index);
    const OperationFacts* facts = rank_.facts_of(operation);
    if (facts == nullptr) facts = FactsTable(*rank_.trace).find(span.operation);
    if (facts != nullptr) add_facts(*facts);
    for (const SpanMeasure& measure : measures_of(*rank_.trace, index))
      add(rank_.trace->measures[measure.measure], fmt::format("{}", measure.value));
    if (const auto launched = launched_at(rank_, index))
      add("launch delay", rounded_text(span.start - *launched));
    if (operation) add_other_side(operation);
  }

  void add_facts(const OperationFacts& facts) {
    if (facts.name != name_of(data_, place_) && !facts.name.empty()) add("operation", facts.name);
    if (facts.operation && !rank_.imported)
      add("operation id", fmt::format("{}", facts.operation.value));
    add("kind", std::string(shardscope::name_of(facts.kind)));
    add("phase",
        fmt::format("{}, micro-batch {}", shardscope::name_of(facts.phase), facts.micro_batch + 1));
    add("unit", facts.unit.empty() ? "(root)" : facts.unit);
    if (facts.bytes.count > 0)
      add("bytes", fmt::format("{} ({})", rounded_text(facts.bytes), facts.bytes.count));
    if (facts.flops.count > 0 && duration().ns > 0)
      add("rate",
          rounded_text(FlopRate{static_cast<double>(facts.flops.count) / duration().seconds()}));
    if (is_collective(facts.kind)) add_rates(facts);
  }

  void add_rates(const OperationFacts& facts) {
    if (!facts.group.empty())
      add("group", facts.ranks.empty()
                       ? facts.group
                       : fmt::format("{}, {} ranks", facts.group, facts.ranks.size()));
    if (duration().ns <= 0 || facts.bytes.count <= 0) return;
    add("algbw",
        rounded_text(Bandwidth{static_cast<double>(facts.bytes.count) / duration().seconds()}));
    ImportedCollective same;
    same.kind = facts.kind;
    same.group_size = static_cast<std::int64_t>(facts.ranks.size());
    same.elements_in = facts.elements_in;
    same.elements_out = facts.elements_out;
    same.dtype = facts.dtype;
    same.duration = duration();
    if (const auto rate = bus_bandwidth(same)) add("busbw", rounded_text(*rate));
  }

  void add_other_side(OperationId operation) {
    const double time = axis_range(data_, place_).middle();
    for (const TimelineBlock& block : data_.blocks) {
      const bool is_predicted = rank_.side == SideKind::predicted;
      const auto own = is_predicted ? block.predicted : block.profiled;
      const auto other = is_predicted ? block.profiled : block.predicted;
      if (own != place_.source || !other) continue;
      const auto there = place_of_operation(data_, *other, operation, time);
      if (!there) continue;
      const SpanLane& lane = lane_of(data_, *there);
      const Duration theirs{lane.end(there->index) - lane.begin(there->index)};
      const Duration predicted = is_predicted ? duration() : theirs;
      const Duration profiled = is_predicted ? theirs : duration();
      std::string text = rounded_text(theirs);
      if (profiled.ns > 0)
        text += fmt::format(", prediction off by {:+.1f}%",
                            100.0 * static_cast<double>((predicted - profiled).ns) /
                                static_cast<double>(profiled.ns));
      add(is_predicted ? "profiled" : "predicted", text);
      return;
    }
  }

  void add_event(std::uint32_t event) {
    const ImportedTrace& from = *rank_.imported;
    add("category", std::string(from.category_of(event)));
    if (from.events.link[event] != 0)
      add("correlation", fmt::format("{}", from.events.link[event]));
  }

  const TimelineData& data_;
  const SpanPlace& place_;
  const TimelineRank& rank_;
  const SpanLane& lane_;
  std::vector<SpanDetail> details_;
};

}  // namespace

std::vector<SpanDetail> span_details(const TimelineData& data, const SpanPlace& place) {
  return Details(data, place).list();
}

std::string announcement(const std::vector<SpanDetail>& details, const std::string& reason) {
  std::string text;
  const auto add = [&](const std::string& what) {
    if (!what.empty()) text += (text.empty() ? "" : ", ") + what;
  };
  for (const SpanDetail& detail : details) {
    if (detail.what == "name" || detail.what == "of") add(detail.value);
    // Without the nanoseconds, which are for the eye.
    if (detail.what == "duration") add(detail.value.substr(0, detail.value.find(" (")));
    for (const char* told : {"begin", "phase", "unit", "bytes", "profiled", "predicted"})
      if (detail.what == told) add(detail.what + " " + detail.value);
  }
  add(reason);
  return text;
}

}  // namespace shardscope::gui
