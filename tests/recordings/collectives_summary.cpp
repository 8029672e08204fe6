#include "tests/recordings/collectives_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> short_kinds{
    {{"all_gather", "AG"},
     {"reduce_scatter", "RS"},
     {"all_reduce", "AR"},
     {"broadcast", "BC"},
     {"reduce", "RD"},
     {"scatter", "SC"},
     {"gather", "GA"},
     {"all_to_all", "A2A"},
     {"barrier", "BAR"}}};

std::string short_kind(const std::string& kind) {
  for (const auto& [name, abbreviation] : short_kinds)
    if (name == kind) return std::string(abbreviation);
  return kind;
}

/// A field as text; empty where it is absent or null.
std::string text(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found == event.end() || found->is_null() ? "" : found->get<std::string>();
}

/// Rows of `order` as they grow, with what a host wait refers back to.
class Summary {
 public:
  void add(const Json& event) {
    if (event.at("ev") == "phase")
      rows_.push_back({event.at("ph"), event.at("it"), event.at("mb"), ""});
    else if (!rows_.empty())
      append(token_of(event));
  }

  Json rows() const {
    Json rows = Json::array();
    for (const Row& row : rows_)
      if (!row.tokens.empty())
        rows.push_back(Json::array({row.phase, row.iteration, row.micro_batch, row.tokens}));
    return rows;
  }

 private:
  struct Row {
    std::string phase;
    int iteration;
    int micro_batch;
    std::string tokens;
  };
  struct Free {
    std::string unit;
    std::string phase;
    int iteration;
  };

  void append(const std::string& token) {
    if (token.empty()) return;
    std::string& tokens = rows_.back().tokens;
    if (!tokens.empty()) tokens += ' ';
    tokens += token;
  }

  std::string token_of(const Json& event) {
    const std::string kind = event.at("ev").get<std::string>();
    if (kind == "coll") {
      const std::string unit = text(event, "unit");
      return short_kind(text(event, "kind")) + ":" + (unit.empty() ? "-" : unit);
    }
    if (kind == "fwd_begin") return "F:" + text(event, "mod");
    if (kind == "recompute_begin") return "R:" + text(event, "mod");
    if (kind == "bwd_begin") return "B:" + text(event, "mod");
    if (kind == "buckets_rebuilt") return "REBUILD";
    if (kind == "reshard") return reshard(event);
    if (kind == "host_wait") return host_wait(event);
    if (kind == "limiter_enqueue") freed_at_[event.at("e").get<int>()] = last_free_;
    return {};
  }

  std::string reshard(const Json& event) {
    const std::string to = text(event, "to");
    const bool frees = event.value("free", false);
    if (!frees && to.empty()) return {};
    last_free_ = Free{text(event, "unit"), rows_.back().phase, rows_.back().iteration};
    return (frees || to == "sharded" ? "free:" : "shrink:") + text(event, "unit");
  }

  std::string host_wait(const Json& event) const {
    const auto found = freed_at_.find(event.at("e").get<int>());
    if (found == freed_at_.end() || !found->second) return "WAIT:?@?0";
    const Free& free = *found->second;
    return fmt::format("WAIT:{}@{}{}", free.unit, free.phase, free.iteration);
  }

  std::vector<Row> rows_;
  std::optional<Free> last_free_;
  std::map<int, std::optional<Free>> freed_at_;  ///< by the limiter's event
};

/// The fields `keys` of those events that `wanted` names ("": all).
std::vector<Json> rows_of(const Json& events, std::string_view wanted,
                          const std::vector<const char*>& keys) {
  std::vector<Json> rows;
  for (const Json& event : events) {
    if (!wanted.empty() && event.at("ev") != wanted) continue;
    Json row = Json::array();
    for (const char* key : keys) row.push_back(event.value(key, Json()));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Json> collective_rows(const Json& events) {
  std::vector<Json> rows =
      rows_of(events, "coll", {"kind", "unit", "in", "out", "dtype", "ph", "site", "ranks"});
  for (Json& row : rows) row.back() = row.back().size();
  return rows;
}

}  // namespace

Json order_of(const Json& events) {
  Summary summary;
  for (const Json& event : events) summary.add(event);
  return summary.rows();
}

Json counts_of(const Json& events) {
  Json counts = Json::object();
  for (const Json& event : events) {
    if (event.at("ev") != "coll") continue;
    const std::string kind = event.at("kind").get<std::string>();
    counts[kind] = counts.value(kind, 0) + 1;
  }
  return counts;
}

bool same_collectives(const Json& events, const Json& others) {
  return collective_rows(events) == collective_rows(others);
}

bool same_sequence(const Json& events, const Json& others) {
  const std::vector<const char*> keys{"ev", "unit", "mod"};
  return rows_of(events, "", keys) == rows_of(others, "", keys);
}

}  // namespace shardscope::recordings
