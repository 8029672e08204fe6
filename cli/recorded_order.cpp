#include "cli/recorded_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/recording/recorded_order.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

struct RankOrder {
  int rank = 0;
  bool is_there = true;        ///< in the first recording; false: nothing below is known
  std::size_t operations = 0;  ///< of the second recording
  std::optional<OrderDifference> difference;
  Duration first_step, second_step;  ///< time of a step on the same machine
};

RankOrder order_of(const std::vector<RecordedRun>& first, const RecordedRun& second) {
  const int rank = second.settings.place.rank;
  const auto same_rank = [&](const RecordedRun& run) { return run.settings.place.rank == rank; };
  const auto found = std::find_if(first.begin(), first.end(), same_rank);
  if (found == first.end()) return {.rank = rank, .is_there = false};
  return {.rank = rank,
          .operations = second.recording.schedule.operations.size(),
          .difference = order_difference(found->recording.schedule, second.recording.schedule),
          .first_step = found->prediction.summary.step_time,
          .second_step = second.prediction.summary.step_time};
}

std::string shown(const std::string& name) { return name.empty() ? "nothing more" : name; }

}  // namespace

std::string order_text(const std::vector<RecordedRun>& first,
                       const std::vector<RecordedRun>& second, const std::string& first_folder) {
  std::string text;
  for (const RecordedRun& run : second) {
    const RankOrder order = order_of(first, run);
    text += fmt::format("rank {} beside {}: ", order.rank, first_folder);
    if (!order.is_there) {
      text += "it has no such rank; give the same --world, --rank and --ranks\n";
      continue;
    }
    if (const auto& difference = order.difference)
      text +=
          fmt::format("the order differs from operation {} on, {} there and {} here; ",
                      difference->operation, shown(difference->first), shown(difference->second));
    else
      text += fmt::format("the same {} operations in the same order; ", order.operations);
    text += fmt::format("that one is predicted with {} a step, this one with {}\n",
                        rounded_text(order.first_step), rounded_text(order.second_step));
  }
  return text;
}

std::string with_order(const std::string& json, const std::vector<RecordedRun>& first,
                       const std::vector<RecordedRun>& second, const std::string& first_folder) {
  Json ranks = Json::array();
  for (const RecordedRun& run : second) {
    const RankOrder order = order_of(first, run);
    Json one{{"rank", order.rank},
             {"same_order", nullptr},
             {"operations", run.recording.schedule.operations.size()},
             {"difference", nullptr},
             {"step_time_ns", nullptr}};
    if (order.is_there) {
      one["same_order"] = !order.difference;
      one["step_time_ns"] = order.first_step.ns;
    }
    if (const auto& difference = order.difference)
      one["difference"] = {{"operation", difference->operation},
                           {"there", difference->first},
                           {"here", difference->second}};
    ranks.push_back(std::move(one));
  }
  Json answer = Json::parse(json);
  answer["beside"] = {{"run", first_folder}, {"ranks", std::move(ranks)}};
  constexpr int indent = 2;
  return answer.dump(indent, ' ', true, Json::error_handler_t::replace);
}

}  // namespace shardscope
