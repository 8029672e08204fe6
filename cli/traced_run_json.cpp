#include <nlohmann/json.hpp>

#include "cli/traced_run_report.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json times_json(const SideBySide<Duration>& times) {
  return {{"predicted_ns", times.predicted.value.ns},
          {"profiled_ns", times.profiled.value.ns},
          {"error_share", number_or_null(error_share(times))}};
}

Json bytes_json(const std::optional<SideBySide<Bytes>>& bytes) {
  if (!bytes) return nullptr;
  return {{"predicted_bytes", bytes->predicted.value.count},
          {"profiled_bytes", bytes->profiled.value.count},
          {"error_share", number_or_null(error_share(*bytes))}};
}

/// The least sure pair decides; "none" where nothing is matched.
std::string_view confidence_of(const PairCounts& counts) {
  if (counts.order_and_kind > 0) return name_of(Confidence::order_and_kind);
  if (counts.known_fields > 0) return name_of(Confidence::known_fields);
  return counts.all_fields > 0 ? name_of(Confidence::all_fields) : "none";
}

/// What differs in things of one sort, on all of the ranks given.
Json unmatched_json(const std::vector<const RankMatch*>& ranks, std::string_view what) {
  Json rows = Json::array();
  for (const RankMatch* rank : ranks) {
    for (const MatchDifference& difference : rank->differences) {
      if (difference.what != what) continue;
      const auto side = [](const std::string& text) {
        return text.empty() ? Json(nullptr) : Json(text);
      };
      rows.push_back({{"rank", rank->rank.value_or(0)},
                      {"step", side(difference.step)},
                      {"predicted", side(difference.predicted)},
                      {"profiled", side(difference.profiled)}});
    }
  }
  return rows;
}

Json counts_json(const PairCounts& counts) {
  return {{"predicted", counts.predicted},
          {"profiled", counts.profiled},
          {"matched", counts.matched()},
          {"confidence", confidence_of(counts)},
          {"by_confidence",
           {{"all_fields", counts.all_fields},
            {"known_fields", counts.known_fields},
            {"order_and_kind", counts.order_and_kind}}}};
}

Json counts_json(const PairCounts& counts, const std::vector<const RankMatch*>& ranks,
                 std::string_view what) {
  Json json = counts_json(counts);
  json["unmatched"] = unmatched_json(ranks, what);
  return json;
}

Json steps_json(const std::vector<const RankMatch*>& ranks) {
  PairCounts all;
  Json rows = Json::array();
  for (const RankMatch* rank : ranks) {
    all += rank->all_steps();
    for (const StepPair& step : rank->steps) {
      rows.push_back({{"rank", rank->rank.value_or(0)},
                      {"profiled", step.profiled.name},
                      {"predicted", step.predicted},
                      {"matched", rank->is_matched(step)},
                      {"collectives", step.collectives.matched()},
                      {"compute", step.compute.matched()},
                      {"predicted_ns", step.predicted_time.ns},
                      {"profiled_ns", step.profiled.window.length().ns}});
    }
  }
  return {{"predicted", all.predicted},
          {"profiled", all.profiled},
          {"matched", all.matched()},
          {"by", ranks.empty() ? "none" : name_of(ranks.front()->step_marks)},
          {"unmatched", unmatched_json(ranks, "steps")},
          {"steps", std::move(rows)}};
}

Json match_json(const std::vector<const RankMatch*>& ranks) {
  PairCounts units, collectives, compute;
  bool complete = true;
  for (const RankMatch* rank : ranks) {
    units += rank->all_units();
    collectives += rank->all_collectives();
    compute += rank->all_compute();
    complete = complete && rank->complete();
  }
  PairCounts both = units;
  both += collectives;
  return {{"complete", complete},
          {"confidence", complete ? confidence_of(both) : "incomplete"},
          {"runtime", {{"unmatched", unmatched_json(ranks, "runtime")}}},
          {"steps", steps_json(ranks)},
          {"units", counts_json(units, ranks, "units")},
          {"collectives", counts_json(collectives, ranks, "collectives")},
          {"compute", counts_json(compute, ranks, "compute")},
          {"world", {{"unmatched", unmatched_json(ranks, "world")}}}};
}

Json units_json(const RankMatch& match) {
  Json rows = Json::array();
  for (const UnitPair& unit : match.units)
    rows.push_back({{"unit", unit.name},
                    {"matched", unit.matched},
                    {"profiled", unit.profiled.empty() ? Json(nullptr) : Json(unit.profiled)},
                    {"by", unit.by},
                    {"confidence", name_of(unit.confidence)}});
  return rows;
}

Json by_category_json(const MatchErrors& errors) {
  return {{"step", times_json(errors.step)},
          {"compute", times_json(errors.compute)},
          {"communication", times_json(errors.communication)},
          {"copy", times_json(errors.copy)},
          {"unmatched_compute", times_json(errors.unmatched)}};
}

Json by_unit_json(const MatchErrors& errors) {
  Json rows = Json::array();
  for (const UnitErrors& unit : errors.by_unit)
    rows.push_back({{"unit", unit.unit ? Json(*unit.unit) : Json(nullptr)},
                    {"compute", times_json(unit.compute)},
                    {"communication", times_json(unit.communication)}});
  return rows;
}

Json memory_json(const std::optional<MemoryErrors>& memory) {
  if (!memory) return nullptr;
  return {{"source", memory->source},
          {"peak", bytes_json(memory->peak)},
          {"rise_in_step", bytes_json(memory->rise)}};
}

Json rank_json(const TracedRun& run, const TracedRank& rank) {
  const MatchErrors errors = match_errors({{&run.predicted(rank), &rank.match}});
  return {{"rank", rank.match.rank ? Json(*rank.match.rank) : Json(nullptr)},
          {"file", rank.match.file},
          {"runtime", name_of(rank.match.runtime)},
          {"match", match_json({&rank.match})},
          {"units", units_json(rank.match)},
          {"by_category", by_category_json(errors)},
          {"by_unit", by_unit_json(errors)},
          {"memory", memory_json(rank.memory)},
          {"notes", rank.match.notes}};
}

}  // namespace

std::string traced_run_json(const TracedRun& run) {
  std::vector<const RankMatch*> matches;
  Json ranks = Json::array();
  for (const TracedRank& rank : run.ranks) {
    matches.push_back(&rank.match);
    ranks.push_back(rank_json(run, rank));
  }
  const Json json{
      {"schema", "shardscope.compare/1"},
      {"run", run.label},
      {"predicted", run.source},
      {"world", run.world},
      {"assumed", run.assumed},
      {"match", match_json(matches)},
      {"times_comparable", run.times_comparable()},
      {"by_category", by_category_json(run.errors)},
      {"by_unit", by_unit_json(run.errors)},
      {"memory", run.ranks.empty() ? Json(nullptr) : memory_json(run.ranks.front().memory)},
      {"ranks", std::move(ranks)},
      {"left_out", run.left_out}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardscope
