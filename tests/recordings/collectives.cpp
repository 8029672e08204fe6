// The kind `collectives`: what FSDP1, FSDP2, DDP, ZeroRedundancyOptimizer and DeepSpeed issue in
// training steps, in host order.
#include "tests/recordings/collectives.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/recordings/collectives_summary.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recorded_outcome.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// What a recording says of how it was made, not of what was seen.
const std::vector<const char*> circumstances{"case",
                                             "versions",
                                             "device",
                                             "backend",
                                             "recorded_rank",
                                             "rank_differences",
                                             "count_equals_backend_sequence_number"};

const std::vector<std::string> fields{"groups",
                                      "trainable_params",
                                      "units",
                                      "param_order",
                                      "buckets_initial",
                                      "buckets_rebuilt",
                                      "zero1_partition",
                                      "order",
                                      "counts",
                                      "collectives_same_on_all_ranks",
                                      "whole_sequence_same_on_all_ranks",
                                      "events"};

std::vector<std::string> cases(const fs::path& folder) {
  std::vector<std::string> names;
  std::vector<fs::path> families;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) families.push_back(entry.path());
  std::sort(families.begin(), families.end());
  for (const fs::path& family : families)
    for (const std::string& name : recorded_names(family, {}))
      names.push_back(family.filename().string() + "/" + name);
  return names;
}

/// A pickled object's size is Python's affair.
bool carries_objects(const Json& event) {
  if (event.value("dtype", Json()) != "uint8") return false;
  const std::string site = event.at("site").get<std::string>();
  return site.find("_object") != std::string::npos || site == "consolidate_state_dict";
}

/// `events` without the sizes of pickled objects.
Json without_object_sizes(Json events) {
  for (Json& event : events)
    if (event.at("ev") == "coll" && carries_objects(event)) {
      event.erase("in");
      event.erase("out");
    }
  return events;
}

Json expected(Json recorded) {
  for (const char* key : circumstances) recorded.erase(key);
  recorded["events"] = without_object_sizes(std::move(recorded.at("events")));
  return recorded;
}

Json played(const CollectivesFamily& family, const Json& given) {
  Json got = family.play(given, 0);
  const Json events = got.at("events");  // a copy: adding keys moves what is there
  bool collectives_agree = true;
  bool all_agree = true;
  for (int rank = 1; rank < given.at("world").get<int>(); ++rank) {
    const Json others = family.play(given, rank).at("events");
    collectives_agree = collectives_agree && same_collectives(events, others);
    all_agree = all_agree && same_sequence(events, others);
  }
  got["order"] = order_of(events);
  got["counts"] = counts_of(events);
  got["collectives_same_on_all_ranks"] = collectives_agree;
  got["whole_sequence_same_on_all_ranks"] = all_agree;
  got["events"] = without_object_sizes(std::move(got.at("events")));
  return got;
}

Outcome check(const fs::path& folder, const std::string& name, const Options& options) {
  const std::size_t slash = std::min(name.find('/'), name.size());
  const std::string family_name = name.substr(0, slash);
  const auto& families = collectives_families();
  const auto family = std::find_if(families.begin(), families.end(), [&](const auto& candidate) {
    return candidate.name == family_name;
  });
  if (family == families.end())
    return {.difference = "nothing plays " + family_name, .worst_share = {}, .worst = {}};
  const Json recorded =
      recorded_json(folder / family_name, name.substr(std::min(slash + 1, name.size())));
  return compared(expected(recorded), played(*family, recorded.at("case")), options);
}

}  // namespace

const std::vector<CollectivesFamily>& collectives_families() {
  static const std::vector<CollectivesFamily> all{ddp_collectives(), deepspeed_collectives(),
                                                  fsdp1_collectives(), fsdp2_collectives(),
                                                  zero1_collectives()};
  return all;
}

Kind collectives_kind() {
  return {.name = "collectives", .fields = fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
