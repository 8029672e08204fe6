// Memory of training steps, by PyTorch's trackers.
#include "tests/recordings/memory.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/recordings/json_difference.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> compared_fields{"timeline",        "after_init",
                                               "own_after_init",  "categories",
                                               "iterations",      "optimizer_state_bytes",
                                               "parameters_total"};

Outcome differs(std::string difference) {
  return {.difference = std::move(difference), .worst_share = {}, .worst = {}};
}

/// Where the real tracker refused, ours must.
Outcome check_refusal(const Json& recorded) {
  try {
    memory_result(recorded);
  } catch (const std::exception&) {
    return {};
  }
  return differs("expected a refusal: " + recorded.at("failed").get<std::string>());
}

/// The recorder keeps its results in a folder below its cases.
std::filesystem::path results_in(const std::filesystem::path& folder) {
  return std::filesystem::is_directory(folder / "results") ? folder / "results" : folder;
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  const Json recorded = recorded_json(results_in(folder), name);
  if (recorded.contains("failed")) return check_refusal(recorded);
  const Json got = memory_result(recorded);
  for (const std::string& field : compared_fields) {
    if (options.leaves_out(field) || !recorded.contains(field)) continue;
    const std::string difference = json_difference(field, recorded.at(field), got.at(field));
    if (!difference.empty()) return differs(difference);
  }
  return {};
}

std::vector<std::string> cases(const std::filesystem::path& folder) {
  return recorded_names(results_in(folder), {"cases"});
}

}  // namespace

Kind memory_kind() {
  return {.name = "memory", .fields = compared_fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
