#include "tests/recordings/recorded_outcome.h"

#include <nlohmann/json.hpp>

#include "core/base/refusal.h"
#include "tests/recordings/json_difference.h"

namespace shardscope::recordings {

using Json = nlohmann::ordered_json;

std::vector<int> recorded_ranks(const Json& given, int world) {
  std::vector<int> ranks;
  if (given.contains("ranks")) {
    for (const Json& rank : given.at("ranks"))
      if (rank.get<int>() < world) ranks.push_back(rank.get<int>());
    return ranks;
  }
  if (world > 8) return {0, 1, world / 2 - 1, world / 2, world - 2, world - 1};
  for (int rank = 0; rank < world; ++rank) ranks.push_back(rank);
  return ranks;
}

Json error_row(const Error& error) {
  const auto* refusal = dynamic_cast<const Refusal*>(&error);
  return {{"type", refusal != nullptr ? refusal->exception() : "Error"}};
}

Json without_texts(Json recorded) {
  if (recorded.is_object())
    for (const char* key : {"error", "run_error"})
      if (recorded.contains(key)) recorded[key].erase("text");
  if (recorded.is_structured())
    for (Json& value : recorded) value = without_texts(std::move(value));
  return recorded;
}

Json without(Json value, const Options& options) {
  if (value.is_object())
    for (const std::string& key : options.except) value.erase(key);
  if (value.is_structured())
    for (Json& inner : value) inner = without(std::move(inner), options);
  return value;
}

Outcome compared(const Json& recorded, const Json& got, const Options& options) {
  const Json expected = without(without_texts(recorded), options);
  const Json ours = without(got, options);
  for (const auto& [key, value] : expected.items()) {
    if (!ours.contains(key))
      return {.difference = key + ": not computed", .worst_share = {}, .worst = {}};
    if (std::string difference = json_difference(key, value, ours.at(key)); !difference.empty())
      return {.difference = std::move(difference), .worst_share = {}, .worst = {}};
  }
  for (const auto& [key, value] : ours.items())
    if (!expected.contains(key))
      return {.difference = key + ": not recorded", .worst_share = {}, .worst = {}};
  return {};
}

}  // namespace shardscope::recordings
