#include "tests/recordings/parallel.h"

#include <fmt/format.h>

#include <cmath>

#include "tests/recordings/json_difference.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

/// Of allocated bytes.
constexpr double tolerance = 0.01;

const std::vector<std::string> exact_fields{
    "groups", "parameters_local", "parameter_bytes_local", "optimizer_state_bytes",
    "counts", "collectives"};

/// The recorder keeps its results in a folder below its cases.
std::filesystem::path results_in(const std::filesystem::path& folder) {
  return std::filesystem::is_directory(folder / "results") ? folder / "results" : folder;
}

/// The order of an object's keys is none of the figures.
Json by_key(const Json& value) { return Json::parse(nlohmann::json(value).dump()); }

/// The largest error so far of what is allowed to differ.
void note(Outcome& outcome, const std::string& path, const Json& expected, const Json& got) {
  const auto right = expected.get<std::int64_t>();
  const auto ours = got.get<std::int64_t>();
  const double share = std::abs(static_cast<double>(ours - right)) / static_cast<double>(right);
  if (outcome.worst_share && share / tolerance <= *outcome.worst_share) return;
  outcome.worst_share = share / tolerance;
  outcome.worst = fmt::format("{:+d} bytes of {} in {}", ours - right, right, path);
  if (share > tolerance && outcome.difference.empty())
    outcome.difference = fmt::format("{}: expected {} bytes within 1%, got {}", path, right, ours);
}

/// The peak of each iteration.
void compare_peaks(Outcome& outcome, const std::string& path, const Json& expected,
                   const Json& got) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    note(outcome, fmt::format("{}peaks[{}].allocated", path, i), expected[i].at("allocated"),
         got[i].at("allocated"));
}

void compare_rank(Outcome& outcome, const std::string& path, const Json& expected, const Json& got,
                  const Options& options) {
  for (const std::string& field : exact_fields) {
    if (options.leaves_out(field) || !outcome.difference.empty()) continue;
    outcome.difference =
        json_difference(path + field, by_key(expected.at(field)), by_key(got.at(field)));
  }
  if (!options.leaves_out("peaks"))
    compare_peaks(outcome, path, expected.at("peaks"), got.at("peaks"));
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  const Json recorded = recorded_json(results_in(folder), name);
  const Json given = with_parallel_defaults(recorded.at("case"));
  Outcome outcome;
  for (const auto& [rank, expected] : recorded.at("ranks").items())
    compare_rank(outcome, "ranks." + rank + ".", expected, parallel_result(given, std::stoi(rank)),
                 options);
  return outcome;
}

std::vector<std::string> cases(const std::filesystem::path& folder) {
  return recorded_names(results_in(folder), {"cases"});
}

}  // namespace

Kind parallel_kind() {
  std::vector<std::string> fields = exact_fields;
  fields.emplace_back("peaks");
  return {.name = "parallel", .fields = fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
