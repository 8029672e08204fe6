#include "traces/match/unit_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "traces/match/collective_match.h"

namespace shardscope {
namespace {

using Names = std::vector<std::string>;

bool is_inside(const std::string& inner, const std::string& outer) {
  return outer.empty() ? !inner.empty()
                       : inner.size() > outer.size() && inner.starts_with(outer) &&
                             inner[outer.size()] == '.';
}

int depth_of(const std::string& name, const Names& all) {
  return static_cast<int>(std::count_if(
      all.begin(), all.end(), [&](const std::string& other) { return is_inside(name, other); }));
}

/// Names for all of a trace's nested forwards; the root's own where the model's units have none.
bool nested_alike(const Names& names, const std::vector<ProfiledUnit>& units) {
  if (names.size() != units.size()) return false;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (depth_of(names[i], names) != units[i].depth) return false;
  return true;
}

KnownNames names_by_nesting(const Names& predicted, const std::vector<ProfiledUnit>& units) {
  if (nested_alike(predicted, units)) return {predicted.begin(), predicted.end()};
  Names with_root{""};
  with_root.insert(with_root.end(), predicted.begin(), predicted.end());
  if (!nested_alike(with_root, units)) return KnownNames(units.size());
  KnownNames names(with_root.begin(), with_root.end());
  names.front().reset();
  return names;
}

template <class Value>
bool may_be(const std::optional<Value>& seen, const Value& predicted) {
  return !seen || *seen == predicted;
}

/// Whether what the trace has of a unit may be the collective of that kind that the unit has; true
/// of kinds that it has none of.
bool elements_agree(const std::vector<const OperationFacts*>& of_unit,
                    const ImportedCollective& seen) {
  bool has_kind = false;
  for (const OperationFacts* facts : of_unit) {
    if (seen.kind != facts->kind) continue;
    has_kind = true;
    if (may_be(seen.elements_in, facts->elements_in) &&
        may_be(seen.elements_out, facts->elements_out))
      return true;
  }
  return !has_kind;
}

/// Takes back names of units whose collectives are of other sizes.
void forget_other_sizes(KnownNames& names, const PredictedSchedule& predicted,
                        const std::vector<const ProfiledCollective*>& seen) {
  std::map<std::string_view, std::vector<const OperationFacts*>> by_unit;
  for (const PredictedStep& step : predicted.steps)
    for (const PredictedOperation& operation : step.collectives)
      if (has_unit(*operation.facts)) by_unit[operation.facts->unit].push_back(operation.facts);
  for (const ProfiledCollective* collective : seen) {
    if (!collective->unit || !names[*collective->unit]) continue;
    auto& name = names[*collective->unit];
    if (!elements_agree(by_unit[*name], collective->seen)) name.reset();
  }
}

bool is_gradient(Dtype dtype) {
  return dtype == Dtype::float32 || dtype == Dtype::float64 || dtype == Dtype::float16 ||
         dtype == Dtype::bfloat16;
}

bool is_bucket(const OperationFacts& facts) {
  return facts.kind == OperationKind::all_reduce && facts.phase == Phase::backward &&
         is_gradient(facts.dtype);
}

bool may_be_bucket(const ImportedCollective& seen) {
  return seen.kind == OperationKind::all_reduce && (!seen.dtype || is_gradient(*seen.dtype));
}

/// The buckets' all-reduces of one step, in order.
std::vector<const OperationFacts*> buckets_of(const PredictedStep& step) {
  std::vector<const OperationFacts*> buckets;
  for (const PredictedOperation& operation : step.collectives)
    if (is_bucket(*operation.facts)) buckets.push_back(operation.facts);
  return buckets;
}

bool same_sizes(const std::vector<const OperationFacts*>& a,
                const std::vector<const OperationFacts*>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto* x, const auto* y) { return x->elements_in == y->elements_in; });
}

/// Places of the buckets by operation, for each predicted step that is used. DDP rebuilds its
/// buckets after the first step: those of the last step count, and steps that have others have
/// none.
using BucketPlaces = std::map<OperationId, std::size_t>;
std::map<std::int32_t, BucketPlaces> bucket_places(const PredictedSchedule& predicted,
                                                   const std::vector<StepPair>& steps) {
  std::map<std::int32_t, BucketPlaces> places;
  for (const StepPair& step : steps) places[step.predicted];
  std::map<std::int32_t, std::vector<const OperationFacts*>> buckets;
  for (const PredictedStep& step : predicted.steps)
    if (places.contains(step.number)) buckets[step.number] = buckets_of(step);
  for (const auto& [number, of_step] : buckets) {
    if (!same_sizes(of_step, buckets.rbegin()->second)) continue;
    std::map<std::int32_t, std::size_t> next;  // by micro-batch: each reduces them all
    for (const OperationFacts* bucket : of_step)
      places[number][bucket->operation] = next[bucket->micro_batch]++;
  }
  return places;
}

std::int64_t micro_batches(const PredictedSchedule& predicted, std::int32_t number) {
  std::set<std::int32_t> numbers;
  for (const PredictedStep& step : predicted.steps)
    if (step.number == number)
      for (const OperationFacts* bucket : buckets_of(step)) numbers.insert(bucket->micro_batch);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(numbers.size()));
}

/// Buckets of the trace's that nothing was predicted for: the most that a step has, of those steps
/// whose buckets count.
std::vector<const ProfiledCollective*> buckets_left_over(
    const PredictedSchedule& predicted, const std::map<std::int32_t, BucketPlaces>& places,
    const LeftOverCollectives& left_over, const std::vector<StepPair>& steps) {
  const bool any = std::any_of(places.begin(), places.end(),
                               [](const auto& step) { return !step.second.empty(); });
  std::vector<const ProfiledCollective*> most;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto of_step = places.find(steps[i].predicted);
    if (any && of_step->second.empty()) continue;
    std::vector<const ProfiledCollective*> buckets;
    for (const ProfiledCollective* collective : left_over[i])
      if (may_be_bucket(collective->seen)) buckets.push_back(collective);
    const auto batches = static_cast<std::size_t>(micro_batches(predicted, steps[i].predicted));
    buckets.resize((buckets.size() + batches - 1) / batches);
    if (buckets.size() > most.size()) most = std::move(buckets);
  }
  return most;
}

}  // namespace

KnownNames names_of_units(const PredictedSchedule& schedule, const ProfiledUnits& profiled,
                          const std::vector<const ProfiledCollective*>& seen) {
  const Names& predicted = schedule.units;
  const auto& units = profiled.units();
  KnownNames names;
  if (profiled.runtime() == ProfiledRuntime::fsdp1) {
    names = names_by_nesting(predicted, units);
    forget_other_sizes(names, schedule, seen);
    return names;
  }
  for (const ProfiledUnit& unit : units) {
    const bool is_known =
        std::find(predicted.begin(), predicted.end(), unit.name) != predicted.end();
    names.push_back(is_known ? std::optional(unit.name) : std::nullopt);
  }
  return names;
}

std::vector<UnitPair> units_by_annotations(const Names& predicted, const ProfiledUnits& profiled,
                                           const KnownNames& names) {
  const bool is_named = profiled.runtime() == ProfiledRuntime::fsdp2;
  std::vector<UnitPair> pairs;
  for (const std::string& name : predicted) {
    UnitPair pair{.name = name, .by = is_named ? "name" : "order and nesting"};
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) {
      const std::size_t place = static_cast<std::size_t>(found - names.begin());
      pair.matched = true;
      pair.confidence = is_named ? Confidence::all_fields : Confidence::known_fields;
      pair.profiled = is_named
                          ? fmt::format("FSDP::... ({})", name)
                          : fmt::format("FullyShardedDataParallel.forward {} of {}, depth {}",
                                        place + 1, names.size(), profiled.units()[place].depth);
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

std::vector<std::string> units_left_over(const Names& predicted, const ProfiledUnits& profiled,
                                         const KnownNames& names) {
  const bool has_bare_root = names.size() == predicted.size() + 1 && !names.empty() && !names[0] &&
                             std::all_of(names.begin() + 1, names.end(),
                                         [](const auto& name) { return name.has_value(); });
  std::vector<std::string> left;
  for (std::size_t i = has_bare_root ? 1 : 0; i < names.size(); ++i) {
    if (names[i]) continue;
    const ProfiledUnit& unit = profiled.units()[i];
    left.push_back(
        profiled.runtime() == ProfiledRuntime::fsdp2
            ? unit_text(unit.name)
            : fmt::format("forward {} of {}, depth {}", i + 1, names.size(), unit.depth));
  }
  return left;
}

void add_units_of_pairs(const Trace& trace, RankMatch& match) {
  const FactsTable table(trace);
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < match.units.size(); ++i) places.emplace(match.units[i].name, i);
  const auto unit_of = [&](OperationId operation) -> std::optional<std::size_t> {
    const OperationFacts* facts = table.find(operation);
    if (facts == nullptr || !has_unit(*facts)) return std::nullopt;
    const auto place = places.find(facts->unit);
    return place == places.end() ? std::nullopt : std::optional(place->second);
  };
  for (CollectivePair& pair : match.collectives) pair.unit = unit_of(pair.operation);
  for (ComputePair& pair : match.compute) pair.unit = unit_of(pair.operation);
}

std::vector<std::string> match_buckets(const PredictedSchedule& predicted,
                                       const LeftOverCollectives& left_over, RankMatch& match) {
  auto places = bucket_places(predicted, match.steps);
  std::size_t most = 0;
  for (const auto& [step, buckets] : places)
    for (const auto& [operation, place] : buckets) most = std::max(most, place + 1);
  std::vector<std::size_t> found(most), expected(most);
  for (std::size_t i = 0; i < most; ++i)
    match.units.push_back({.name = fmt::format("bucket {}", i),
                           .by = "collectives",
                           .profiled = fmt::format("all-reduce {} of the backward", i + 1)});
  for (const StepPair& step : match.steps)
    for (const auto& [operation, place] : places[step.predicted]) ++expected[place];
  for (CollectivePair& pair : match.collectives) {
    const BucketPlaces& buckets = places[match.steps[pair.step].predicted];
    const auto bucket = buckets.find(pair.operation);
    if (bucket == buckets.end()) continue;
    pair.unit = bucket->second;
    ++found[bucket->second];
    Confidence& least_sure = match.units[bucket->second].confidence;
    least_sure = std::max(least_sure, pair.confidence);
  }
  for (std::size_t i = 0; i < most; ++i) {
    UnitPair& unit = match.units[i];
    unit.matched = found[i] == expected[i] && unit.confidence != Confidence::order_and_kind;
    if (found[i] == 0) unit.profiled.clear();
    match.profiled_units += found[i] > 0;
  }
  std::vector<std::string> left;
  if (match.runtime != ProfiledRuntime::ddp) return left;
  for (const auto* bucket : buckets_left_over(predicted, places, left_over, match.steps))
    left.push_back(text_of(*bucket));
  return left;
}

std::string unit_text(const std::string& name) { return name.empty() ? "the root" : name; }

}  // namespace shardscope
