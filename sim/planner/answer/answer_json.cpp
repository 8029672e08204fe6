#include "sim/planner/answer/answer_json.h"

#include <nlohmann/json.hpp>

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

Json candidate_json(const Candidate& candidate, const Inputs& inputs) {
  Json json = summary_json(candidate.summary);
  json["place"] = candidate.place;
  json["why"] = candidate.why.empty() ? Json() : Json(candidate.why);
  json["settings"] = settings_json(candidate.choice);
  json["text"] = text_of(candidate.choice);
  json["needed_memory_bytes"] = needed_memory(candidate.summary).count;
  json["ties_with_best"] = candidate.ties;
  json["gpu_hours_per_1e9_tokens"] = candidate.gpu_hours;
  if (inputs.price_per_gpu_hour)
    json["price_per_1e9_tokens"] = candidate.gpu_hours * *inputs.price_per_gpu_hour;
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

Json chosen_json(const Answer& answer) {
  const WrittenChoice& written = *answer.written;
  return {{"place", answer.candidates[answer.chosen.candidate].place},
          {"why_not_first", answer.chosen.why_not_first},
          {"format", written.format},
          {"file", written.file},
          {"text", written.text},
          {"losses", losses_json(written.losses)}};
}

}  // namespace

std::string answer_json(const Answer& answer, const Inputs& inputs) {
  Json json{{"schema", "shardscope.plan/1"},
            {"objective", name_of(inputs.objective)},
            {"world", inputs.question.world},
            {"tokens_per_batch", inputs.question.tokens_per_batch}};
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
  json["given"] = answer.given ? given_json(*answer.given) : Json();
  json["losers"] = std::move(rejected);
  json["dropped"] = std::move(dropped);
  json["remarks"] = answer.remarks;
  json["advice"] = answer.advice;
  json["choices"] = answer.choices;
  json["simulated"] = answer.simulated;
  json["interrupted"] = answer.interrupted;
  json["assumed"] = inputs.assumed;
  json["elapsed_s"] = answer.elapsed_s;
  constexpr int indent = 2;
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shardscope::planner
