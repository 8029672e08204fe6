#include "traces/match/unit_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace shardscope {
namespace {

using Names = std::vector<std::string>;
using KnownNames = std::vector<std::optional<std::string>>;

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

bool is_bucket(const OperationFacts& facts) {
  const bool is_gradient = facts.dtype == Dtype::float32 || facts.dtype == Dtype::float64 ||
                           facts.dtype == Dtype::float16 || facts.dtype == Dtype::bfloat16;
  return facts.kind == OperationKind::all_reduce && facts.phase == Phase::backward && is_gradient;
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

}  // namespace

std::vector<std::optional<std::string>> names_of_units(const Names& predicted,
                                                       const ProfiledUnits& profiled) {
  const auto& units = profiled.units();
  if (profiled.runtime() == ProfiledRuntime::fsdp1) return names_by_nesting(predicted, units);
  KnownNames names;
  for (const ProfiledUnit& unit : units) {
    const bool is_known =
        std::find(predicted.begin(), predicted.end(), unit.name) != predicted.end();
    names.push_back(is_known ? std::optional(unit.name) : std::nullopt);
  }
  return names;
}

std::vector<UnitPair> units_by_annotations(const Names& predicted, const ProfiledUnits& profiled) {
  const KnownNames names = names_of_units(predicted, profiled);
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

std::vector<std::string> units_left_over(const Names& predicted, const ProfiledUnits& profiled) {
  const KnownNames names = names_of_units(predicted, profiled);
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

void match_buckets(const PredictedSchedule& predicted, RankMatch& match) {
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
    if (!unit.matched) unit.profiled.clear();
    match.profiled_units += unit.matched;
  }
}

std::string unit_text(const std::string& name) { return name.empty() ? "the root" : name; }

}  // namespace shardscope
