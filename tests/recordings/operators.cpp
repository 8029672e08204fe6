// The operators of one training step of a Hugging Face model, and what autograd saves.
#include "tests/recordings/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/recordings/json_difference.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

/// In the order in which they explain each other. `check` is PyTorch's own, of a second run.
const std::vector<std::string> compared_fields{"modules",  "operators",       "tensors",
                                               "storages", "nodes",           "saved",
                                               "fan_in",   "saved_by_module", "totals"};

/// "#12 B transformer.h.0.attn aten.bmm.default".
std::string operator_words(const Json& result, std::size_t index) {
  const Json& row = result.at("operators").at(index);
  const auto module = row.at(1).get<std::int64_t>();
  return fmt::format("#{} {} {} {}", index, row.at(0).get<std::string>(),
                     module < 0 ? "-" : result.at("modules").at(module).at(0).get<std::string>(),
                     row.at(3).get<std::string>());
}

/// The rows of `tensors` that one operator reads or writes.
Json tensors_of(const Json& result, const Json& indices) {
  Json rows = Json::array();
  for (const Json& i : indices) rows.push_back(result.at("tensors").at(i.get<std::size_t>()));
  return rows;
}

/// One operator with its tensors written out, so that a difference says what is different.
Json operator_of(const Json& result, std::size_t index) {
  const Json& row = result.at("operators").at(index);
  const auto module = row.at(1).get<std::int64_t>();
  return {{"phase", row.at(0)},
          {"operator", row.at(3)},
          {"module", module < 0 ? Json("-") : result.at("modules").at(module).at(0)},
          {"inputs", tensors_of(result, row.at(4))},
          {"outputs", tensors_of(result, row.at(5))},
          {"node", row.at(2)},
          {"flops", row.at(6)}};
}

std::string operators_difference(const Json& recorded, const Json& got) {
  const std::size_t expected = recorded.at("operators").size();
  const std::size_t ours = got.at("operators").size();
  for (std::size_t i = 0; i < std::min(expected, ours); ++i)
    if (const auto d = json_difference("operators " + operator_words(recorded, i),
                                       operator_of(recorded, i), operator_of(got, i));
        !d.empty())
      return d;
  if (ours < expected)
    return fmt::format("operators: {} of {}; the first missing is {}", ours, expected,
                       operator_words(recorded, ours));
  if (ours > expected)
    return fmt::format("operators: {} instead of {}; the first too many is {}", ours, expected,
                       operator_words(got, expected));
  return {};
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  const Json recorded = recorded_json(folder, name);
  const Json got = operators_result(recorded);
  for (const std::string& field : compared_fields) {
    if (options.leaves_out(field)) continue;
    const std::string difference = field == "operators"
                                       ? operators_difference(recorded, got)
                                       : json_difference(field, recorded.at(field), got.at(field));
    if (!difference.empty()) return {.difference = difference, .worst_share = {}, .worst = {}};
  }
  return {};
}

std::vector<std::string> cases(const std::filesystem::path& folder) {
  return recorded_names(folder, {"cases"});
}

}  // namespace

Kind operators_kind() {
  return {.name = "operators", .fields = compared_fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
