// The kind `finetune`: fine-tuning with PEFT and bitsandbytes, phase by phase, under the caching
// allocator.
#include "tests/recordings/finetune.h"

#include <fmt/format.h>

#include <cmath>

#include "tests/recordings/json_difference.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

constexpr double allowed_share = 0.01;

const std::vector<std::string> compared_fields{"setup",
                                               "iterations",
                                               "model",
                                               "logits",
                                               "loss_dtype",
                                               "gradients",
                                               "trainable_without_gradient",
                                               "local_trainable_elements",
                                               "optimizer_state",
                                               "phases"};

/// The largest error of a number of bytes.
struct Worst {
  double share = 0;
  std::string text;

  void see(const std::string& path, const Json& expected, const Json& got) {
    if (expected.is_number() && got.is_number()) return note(path, expected, got);
    if (expected.is_array() && got.is_array())
      for (std::size_t i = 0; i < std::min(expected.size(), got.size()); ++i)
        see(fmt::format("{}[{}]", path, i), expected[i], got[i]);
    if (expected.is_object() && got.is_object())
      for (const auto& [key, value] : expected.items())
        if (got.contains(key)) see(path + "." + key, value, got[key]);
  }

 private:
  void note(const std::string& path, const Json& expected, const Json& got) {
    const double wanted = expected.get<double>();
    const double error = wanted == 0 ? (got.get<double>() == 0 ? 0 : 1)
                                     : std::abs(got.get<double>() - wanted) / wanted;
    if (error <= share) return;
    share = error;
    text = fmt::format("{}: {} for {}", path, got.dump(), expected.dump());
  }
};

Json by_key(const Json& value) { return Json::parse(nlohmann::json(value).dump()); }

std::filesystem::path results_in(const std::filesystem::path& folder) {
  return std::filesystem::is_directory(folder / "results") ? folder / "results" : folder;
}

Json played(const Json& recorded) {
  const FineTuneCase given(recorded.at("settings"));
  Json result = played_finetune(given, false);
  // The recorder's --once leaves the second run out.
  if (recorded.at("iterations").at(0).contains("peak_without_workspace")) {
    const Json bare = played_finetune(given, true);
    for (std::size_t i = 0; i < result["iterations"].size(); ++i)
      result["iterations"][i]["peak_without_workspace"] = bare["iterations"][i]["peak"];
  }
  result["model"] = described_model(given);
  return result;
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  const Json recorded = recorded_json(results_in(folder), name);
  const Json got = by_key(played(recorded));
  Outcome outcome;
  Worst worst;
  for (const std::string& field : compared_fields) {
    if (options.leaves_out(field) || !recorded.contains(field)) continue;
    const Json expected = by_key(recorded.at(field));
    const Json ours = got.value(field, Json());
    if (outcome.difference.empty()) outcome.difference = json_difference(field, expected, ours);
    worst.see(field, expected, ours);
  }
  outcome.worst_share = worst.share / allowed_share;
  outcome.worst = worst.text;
  return outcome;
}

std::vector<std::string> cases(const std::filesystem::path& folder) {
  return recorded_names(results_in(folder), {"cases"});
}

}  // namespace

Kind finetune_kind() {
  return {.name = "finetune", .fields = compared_fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
