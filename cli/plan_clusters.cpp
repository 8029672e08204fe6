#include "cli/plan_clusters.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/table.h"
#include "core/base/grouped.h"
#include "sim/planner/answer/answer_json.h"
#include "sim/planner/answer/run_cost.h"
#include "traces/memory_fit.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

std::optional<planner::RunCost> run_of(const ClusterAnswer& one, const planner::Candidate& place) {
  return planner::run_cost(place.summary.step_time, planner::world_of(place.choice),
                           one.inputs.question.tokens_per_batch, one.inputs.goals);
}

/// What the same tokens take: money where prices are known, else GPU-hours.
double cost_of(const ClusterAnswer& one, const planner::Candidate& place) {
  return place.gpu_hours * one.inputs.goals.price_per_gpu_hour.value_or(1);
}

/// Prices of some clusters only cannot be compared.
bool all_have_prices(std::span<const ClusterAnswer> all) {
  for (const ClusterAnswer& one : all)
    if (!one.inputs.goals.price_per_gpu_hour) return false;
  return true;
}

double time_of(const ClusterAnswer&, const planner::Candidate& place) {
  return 1 / place.summary.tokens_per_s;
}

using Measure = double (*)(const ClusterAnswer&, const planner::Candidate&);

/// Whether the difference of two clusters is within its band. Nothing is shared by them, other
/// GPUs, hosts and network, so that the bands of both add as squares.
bool is_tied(const ClusterAnswer& best, const ClusterAnswer& other, Measure measure) {
  const auto step = [](const ClusterAnswer& one) {
    return static_cast<double>(chosen_place(one)->summary.step_time.ns);
  };
  const double ratio = measure(other, *chosen_place(other)) / measure(best, *chosen_place(best));
  const double up =
      std::log(static_cast<double>(chosen_place(best)->summary.step_time_high.ns) / step(best));
  const double down =
      std::log(static_cast<double>(chosen_place(other)->summary.step_time_low.ns) / step(other));
  return std::log(ratio) <= std::hypot(up, down);
}

/// Clusters that may be as good as the best one.
std::vector<std::size_t> ties_of(std::span<const ClusterAnswer> all, std::size_t best,
                                 Measure measure) {
  std::vector<std::size_t> ties;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != best && chosen_place(all[i]) != nullptr && is_tied(all[best], all[i], measure))
      ties.push_back(i);
  return ties;
}

std::string best_line(const char* name, std::span<const ClusterAnswer> all, std::size_t best,
                      Measure measure) {
  std::string text = fmt::format("{:<9} {}", name, all[best].cluster);
  for (const std::size_t tie : ties_of(all, best, measure))
    text +=
        fmt::format("; {} is {:+.1f}%, which is within the band: not told apart", all[tie].cluster,
                    100 * (measure(all[tie], *chosen_place(all[tie])) /
                               measure(all[best], *chosen_place(all[best])) -
                           1));
  return text + "\n";
}

std::vector<Cell> cells_of(const ClusterAnswer& one, bool has_run) {
  const planner::Candidate* place = chosen_place(one);
  if (place == nullptr) {
    const auto& advice = one.answer.advice;
    const std::string why = advice.empty() ? "" : ": " + advice.front();
    return {one.cluster, std::to_string(one.inputs.question.world),
            one.answer.interrupted && advice.empty() ? "interrupted before anything was found"
                                                     : "nothing fits" + why};
  }
  const auto price = one.inputs.goals.price_per_gpu_hour;
  const auto run = has_run ? run_of(one, *place) : std::nullopt;
  const double hours = run ? run->gpu_hours : place->gpu_hours;
  const auto energy = planner::most_energy_kwh(hours, one.inputs.profile);
  std::vector<Cell> cells{one.cluster,
                          std::to_string(planner::world_of(place->choice)),
                          planner::text_of(place->choice),
                          rounded_text(place->summary.step_time),
                          grouped(static_cast<std::int64_t>(place->summary.tokens_per_s)),
                          rounded_text(needed_memory(place->summary)),
                          fmt::format("{:.4g}", hours),
                          price ? fmt::format("{:.2f}", hours * *price) : std::string("-"),
                          energy ? fmt::format("{:.4g}", *energy) : std::string("-")};
  if (has_run) cells.emplace_back(run ? fmt::format("{:.3g}", run->days) : std::string("-"));
  return cells;
}

Json place_json(const ClusterAnswer& one, const planner::Candidate& place) {
  const auto run = run_of(one, place);
  const auto energy = planner::most_energy_kwh(place.gpu_hours, one.inputs.profile);
  const auto price = one.inputs.goals.price_per_gpu_hour;
  return {{"world", planner::world_of(place.choice)},
          {"text", planner::text_of(place.choice)},
          {"step_time_ns", place.summary.step_time.ns},
          {"step_time_low_ns", place.summary.step_time_low.ns},
          {"step_time_high_ns", place.summary.step_time_high.ns},
          {"tokens_per_s", place.summary.tokens_per_s},
          {"needed_memory_bytes", needed_memory(place.summary).count},
          {"gpu_hours_per_1e9_tokens", place.gpu_hours},
          {"price_per_1e9_tokens", price ? Json(place.gpu_hours * *price) : Json()},
          {"energy_at_most_kwh_per_1e9_tokens", energy ? Json(*energy) : Json()},
          {"days", run ? Json(run->days) : Json()},
          {"gpu_hours", run ? Json(run->gpu_hours) : Json()},
          {"price", run && run->price ? Json(*run->price) : Json()}};
}

}  // namespace

const planner::Candidate* chosen_place(const ClusterAnswer& one) {
  const planner::Answer& answer = one.answer;
  return answer.candidates.empty() ? nullptr : &answer.candidates[answer.chosen.candidate];
}

BestClusters best_of(std::span<const ClusterAnswer> all) {
  BestClusters best;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const planner::Candidate* place = chosen_place(all[i]);
    if (place == nullptr) continue;
    const auto other = [&](std::size_t at) -> const planner::Candidate& {
      return *chosen_place(all[at]);
    };
    if (!best.fastest || place->summary.tokens_per_s > other(*best.fastest).summary.tokens_per_s)
      best.fastest = i;
    if (!best.cheapest ||
        cost_of(all[i], *place) < cost_of(all[*best.cheapest], other(*best.cheapest)))
      best.cheapest = i;
  }
  return best;
}

std::string clusters_text(std::span<const ClusterAnswer> all, const Painter& painter) {
  const bool has_run = all.front().inputs.goals.train_tokens.has_value();
  std::vector<Column> columns{{"cluster"},
                              {"ranks", Align::right},
                              {"chosen"},
                              {"step time", Align::right},
                              {"tokens/s", Align::right},
                              {"memory", Align::right},
                              {"GPU-hours", Align::right},
                              {"price", Align::right},
                              {"kWh at most", Align::right}};
  if (has_run) columns.push_back({"days", Align::right});
  Table table(std::move(columns));
  for (const ClusterAnswer& one : all) table.row(cells_of(one, has_run));
  std::string text = fmt::format("{} tokens a step; GPU-hours, price and energy {}\n",
                                 grouped(all.front().inputs.question.tokens_per_batch),
                                 has_run ? "of the whole training" : "for 10^9 tokens");
  text += table.text(painter);
  const BestClusters best = best_of(all);
  if (!best.fastest) return text;
  text += best_line("fastest", all, *best.fastest, time_of);
  if (all_have_prices(all)) text += best_line("cheapest", all, *best.cheapest, cost_of);
  return text + "energy    of the GPUs at their power limit, without hosts, network and cooling\n";
}

std::string clusters_json(std::span<const ClusterAnswer> all) {
  const BestClusters best = best_of(all);
  const bool priced = all_have_prices(all);
  Json clusters = Json::array();
  for (const ClusterAnswer& one : all) {
    const planner::Candidate* place = chosen_place(one);
    clusters.push_back({{"cluster", one.cluster},
                        {"chosen", place != nullptr ? place_json(one, *place) : Json()},
                        {"plan", Json::parse(planner::answer_json(one.answer, one.inputs))}});
  }
  const auto name = [&](std::optional<std::size_t> at) {
    return at ? Json(all[*at].cluster) : Json();
  };
  const auto names = [&](std::optional<std::size_t> at, Measure measure) {
    Json found = Json::array();
    if (at)
      for (const std::size_t tie : ties_of(all, *at, measure)) found.push_back(all[tie].cluster);
    return found;
  };
  const Json json{{"schema", "shardscope.plan/1"},
                  {"clusters", std::move(clusters)},
                  {"fastest", name(best.fastest)},
                  {"cheapest", priced ? name(best.cheapest) : Json()},
                  {"ties_with_fastest", names(best.fastest, time_of)},
                  {"ties_with_cheapest", priced ? names(best.cheapest, cost_of) : Json::array()}};
  constexpr int indent = 2;
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shardscope
