#include "sim/planner/answer/answer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sim/planner/choice_json.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

using Json = nlohmann::ordered_json;

Json settings_json(const Choice& choice) { return Json::parse(choice_json(choice)); }

Json summary_json(const Summary& summary) {
  Json json = Json::parse(to_json(summary, "plan"));
  json.erase("schema");
  return json;
}

/// Of the whole training; null where its tokens are not known.
Json run_json(const Candidate& candidate, const Inputs& inputs) {
  const auto run = run_cost(candidate.summary.step_time, world_of(candidate.choice),
                            inputs.question.tokens_per_batch, inputs.goals);
  if (!run) return {};
  Json json{{"steps", run->steps}, {"days", run->days}, {"gpu_hours", run->gpu_hours}};
  json["price"] = run->price ? Json(*run->price) : Json();
  return json;
}

/// Null where the power limit of the GPU is not known.
Json energy_json(const Candidate& candidate, const Inputs& inputs) {
  const auto energy = most_energy_kwh(candidate.gpu_hours, inputs.profile);
  if (!energy) return {};
  const auto run = run_cost(candidate.summary.step_time, world_of(candidate.choice),
                            inputs.question.tokens_per_batch, inputs.goals);
  const auto source = inputs.profile.provenance.find("gpu");
  return {{"power_limit_w", inputs.profile.gpu->power_limit.watts},
          {"source", source != inputs.profile.provenance.end() ? source->second.source : ""},
          {"kwh_per_1e9_tokens", *energy},
          {"run_kwh", run ? Json(*most_energy_kwh(run->gpu_hours, inputs.profile)) : Json()}};
}

/// The rank that the figures of memory and time are of: of a pipeline the first of those that need
/// most memory.
int rank_of(const Candidate& candidate) {
  if (!candidate.summary.pipeline) return 0;
  const int ranks_of_stage = world_of(candidate.choice) / candidate.choice.mesh.pipeline;
  const auto most =
      std::ranges::max_element(candidate.summary.pipeline->ranks, {}, &StageSummary::reserved);
  return most->rank * ranks_of_stage;
}

Json candidate_json(const Candidate& candidate, const Inputs& inputs) {
  Json json = summary_json(candidate.summary);
  json["rank"] = rank_of(candidate);
  json["place"] = candidate.place;
  json["why"] = candidate.why.empty() ? Json() : Json(candidate.why);
  json["settings"] = settings_json(candidate.choice);
  json["text"] = text_of(candidate.choice);
  json["needed_memory_bytes"] = needed_memory(candidate.summary).count;
  json["ties_with_best"] = candidate.ties;
  json["gpu_hours_per_1e9_tokens"] = candidate.gpu_hours;
  if (inputs.goals.price_per_gpu_hour)
    json["price_per_1e9_tokens"] = candidate.gpu_hours * *inputs.goals.price_per_gpu_hour;
  json["slower_share"] = candidate.slower_share;
  json["slower_low_share"] = candidate.slower_low_share;
  json["slower_high_share"] = candidate.slower_high_share;
  json["run"] = run_json(candidate, inputs);
  json["energy_at_most"] = energy_json(candidate, inputs);
  json["folder"] = fmt::format("places/{}", candidate.place);
  return json;
}

Json losses_json(const std::vector<Loss>& losses) {
  Json json = Json::array();
  for (const Loss& loss : losses) json.push_back({{"key", loss.key}, {"why", loss.why}});
  return json;
}

Json given_json(const GivenPlace& given) {
  if (!given.refused.empty())
    return {{"file", given.name}, {"text", given.strategy}, {"refused", given.refused}};
  Json json = summary_json(given.summary);
  json["file"] = given.name;
  json["text"] = given.strategy;
  json["needed_memory_bytes"] = needed_memory(given.summary).count;
  json["faster_places"] = given.faster_choices;
  json["change"] = nullptr;
  if (given.changed) {
    Json changed = summary_json(given.changed->summary);
    changed["settings"] = settings_json(given.changed->choice);
    json["change"] = {{"settings", given.changes}, {"then", std::move(changed)}};
  }
  return json;
}

Json limits_json(const Limits& limits) {
  Json phases = Json::array(), shares = Json::array();
  for (const PhaseNeed& phase : limits.phases)
    phases.push_back(
        {{"phase", phase.phase}, {"needed_bytes", phase.needed.count}, {"fits", phase.fits}});
  for (const TimeShare& part : limits.time)
    shares.push_back({{"constants", name_of(part.group)}, {"share", part.share}});
  return {{"longest_sequence", limits.longest ? Json(*limits.longest) : Json()},
          {"longer_untried", limits.longer_untried},
          {"held_more_share", limits.held_more ? Json(*limits.held_more) : Json()},
          {"phases", std::move(phases)},
          {"step_time", std::move(shares)}};
}

/// Places that cannot be told apart from the first, it included.
Json tied_places(const Answer& answer) {
  Json places = Json::array();
  for (const std::size_t i : answer.chosen.tied) places.push_back(answer.candidates[i].place);
  return places;
}

Json passed_over_json(const Answer& answer) {
  Json places = Json::array();
  for (const PassedOver& other : answer.chosen.passed_over)
    places.push_back({{"place", answer.candidates[other.candidate].place},
                      {"rule", name_of(other.rule)},
                      {"why", other.why}});
  return places;
}

Json file_alone_json(const Answer& answer) {
  if (!answer.file_alone) return nullptr;
  const Summary& summary = answer.file_alone->summary;
  return {{"fits", summary.fits},
          {"step_time_ns", summary.out_of_memory ? Json() : Json(summary.step_time.ns)},
          {"needed_memory_bytes", needed_memory(summary).count}};
}

Json chosen_json(const Answer& answer) {
  const WrittenChoice& written = *answer.written;
  return {{"place", answer.candidates[answer.chosen.candidate].place},
          {"why_not_first", answer.chosen.why_not_first},
          {"rule", name_of(answer.chosen.rule)},
          {"why", answer.chosen.why},
          {"tied", tied_places(answer)},
          {"passed_over", passed_over_json(answer)},
          {"format", written.format},
          {"file", written.file},
          {"text", written.text},
          {"losses", losses_json(written.losses)},
          {"file_alone", file_alone_json(answer)},
          {"limits", limits_json(answer.limits)}};
}

std::string in_quotes(std::string_view text) {
  const bool is_plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (is_plain) return fmt::format("\"{}\"", text);
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string positive_or_null(std::int64_t number) {
  return number > 0 ? std::to_string(number) : "null";
}

/// As `answer_json` would write an array of objects behind a key. There may be very many, and an
/// object of the library for each takes a tenth of a second of the whole answer.
std::string ways_text(const std::vector<Way>& ways) {
  if (ways.empty()) return "[]";
  std::string text = "[";
  for (const Way& way : ways)
    fmt::format_to(
        std::back_inserter(text),
        "{}\n    {{\n      \"text\": {},\n      \"outcome\": {},\n      \"step_time_ns\": {},"
        "\n      \"needed_bytes\": {},\n      \"why\": {}\n    }}",
        text.size() > 1 ? "," : "", in_quotes(text_of(way.choice)), in_quotes(way.outcome),
        positive_or_null(way.time.ns), positive_or_null(way.memory.count), in_quotes(way.why));
  return text + "\n  ]";
}

Json curve_json(const Answer& answer) {
  Json json = Json::array();
  for (const CurvePoint& point : answer.curve)
    json.push_back({{"world", point.world},
                    {"text", text_of(point.choice)},
                    {"step_time_ns", point.step_time.ns},
                    {"tokens_per_s", point.tokens_per_s},
                    {"efficiency_share", point.efficiency_share},
                    {"gpu_hours_per_1e9_tokens", point.gpu_hours},
                    {"is_bend", point.world == bend_of(answer.curve)}});
  return json;
}

Json name_or_null(std::string_view name) { return name.empty() ? Json() : Json(name); }

}  // namespace

std::string answer_json(const Answer& answer, const Inputs& inputs) {
  Json json{{"schema", "shardscope.plan/1"},
            {"objective", name_of(inputs.objective)},
            {"world", inputs.question.world},
            {"tokens_per_batch", inputs.question.tokens_per_batch},
            {"compile", name_or_null(name_of(inputs.question.training.compiled))},
            {"float8", name_or_null(name_of(inputs.question.training.float8))}};
  Json candidates = Json::array(), pareto = Json::array(), rejected = Json::array();
  for (const Candidate& candidate : answer.candidates) {
    candidates.push_back(candidate_json(candidate, inputs));
    if (candidate.on_front) pareto.push_back(candidate.place);
  }
  for (const Rejected& one : answer.rejected)
    rejected.push_back({{"strategy", one.strategy}, {"why", one.why}});
  Json dropped = Json::array();
  for (const Dropped& drop : answer.dropped)
    dropped.push_back({{"strategy", drop.strategy}, {"why", drop.why}});
  json["candidates"] = std::move(candidates);
  json["chosen"] = answer.written ? chosen_json(answer) : Json();
  json["pareto"] = std::move(pareto);
  json["curve"] = curve_json(answer);
  json["given"] = answer.given ? given_json(*answer.given) : Json();
  json["losers"] = std::move(rejected);
  json["dropped"] = std::move(dropped);
  json["ways"] = nullptr;
  json["remarks"] = answer.remarks;
  json["advice"] = answer.advice;
  json["choices"] = answer.choices;
  json["in_groups"] = answer.in_groups;
  json["simulated"] = answer.simulated;
  json["interrupted"] = answer.interrupted;
  json["assumed"] = inputs.assumed;
  json["elapsed_s"] = answer.elapsed_s;
  constexpr int indent = 2;
  std::string text = json.dump(indent, ' ', false, Json::error_handler_t::replace);
  constexpr std::string_view place = "\n  \"ways\": null";
  text.replace(text.find(place) + place.size() - 4, 4, ways_text(answer.ways));
  return text;
}

}  // namespace shardscope::planner
