#include "traces/match/unit_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

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

/// What the pairs of every step say of a bucket.
struct Bucket {
  std::set<std::size_t> steps;
  Confidence least_sure = Confidence::all_fields;
};

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

std::vector<UnitPair> units_by_collectives(const Trace& trace, const PredictedSchedule& predicted,
                                           const RankMatch& match) {
  std::vector<UnitPair> pairs;
  if (predicted.steps.empty()) return pairs;
  const FactsTable facts(trace);
  std::map<std::int32_t, std::map<OperationId, std::size_t>> place;  // by step: of a bucket
  std::size_t most = 0;
  std::set<std::int32_t> used;
  for (const StepPair& step : match.steps) used.insert(step.predicted);
  for (const PredictedStep& step : predicted.steps) {
    if (!used.contains(step.number)) continue;
    auto& buckets = place[step.number];
    for (const PredictedOperation& operation : step.collectives)
      if (is_bucket(*operation.facts)) buckets.emplace(operation.facts->operation, buckets.size());
    most = std::max(most, buckets.size());
  }
  std::vector<Bucket> found(most);
  for (const CollectivePair& pair : match.collectives) {
    const auto& buckets = place[match.steps[pair.step].predicted];
    const auto bucket = buckets.find(pair.operation);
    if (bucket == buckets.end()) continue;
    found[bucket->second].steps.insert(pair.step);
    found[bucket->second].least_sure = std::max(found[bucket->second].least_sure, pair.confidence);
  }
  for (std::size_t i = 0; i < most; ++i) {
    std::size_t expected = 0;
    for (const StepPair& step : match.steps) expected += i < place[step.predicted].size();
    pairs.push_back({.name = fmt::format("bucket {}", i),
                     .matched = found[i].steps.size() == expected &&
                                found[i].least_sure != Confidence::order_and_kind,
                     .by = "collectives",
                     .profiled = fmt::format("all-reduce {} of the backward", i + 1),
                     .confidence = found[i].least_sure});
  }
  return pairs;
}

std::string unit_text(const std::string& name) { return name.empty() ? "the root" : name; }

}  // namespace shardscope
