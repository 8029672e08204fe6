#include "traces/chrome_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace shardscope {

std::string quoted_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string choice_fields(const CollectiveChoice& choice) {
  if (choice == CollectiveChoice{}) return {};
  return fmt::format(", \"algorithm\": {}, \"protocol\": {}, \"channels\": {}",
                     quoted_json(choice.algorithm), quoted_json(choice.protocol), choice.channels);
}

GroupTable::GroupTable(const Trace& trace) {
  for (const OperationFacts& facts : trace.facts) {
    const bool has_group = !facts.group.empty() || !facts.ranks.empty();
    if (!has_group) continue;
    const GroupKey key{facts.group, facts.ranks};
    if (index_.try_emplace(key, groups_.size()).second) groups_.push_back(key);
  }
}

std::int64_t GroupTable::index_of(const OperationFacts& facts) const {
  const auto at = index_.find({facts.group, facts.ranks});
  return at == index_.end() ? -1 : static_cast<std::int64_t>(at->second);
}

}  // namespace shardscope
