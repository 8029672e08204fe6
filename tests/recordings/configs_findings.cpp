// What lint must say where the real tools refuse or warn.
#include <algorithm>

#include "core/config/deepspeed/lint.h"
#include "core/config/trainer/training_args_lint.h"
#include "core/config/values/config_json.h"
#include "tests/recordings/configs.h"
#include "tests/recordings/configs_launch.h"
#include "tests/recordings/configs_models.h"
#include "tests/recordings/configs_plain.h"

namespace shardscope::recordings {

using Json = nlohmann::ordered_json;

std::string findings_difference(const std::vector<Finding>& findings, const Json& recorded) {
  bool failed = false;
  for (const Json& stage : recorded) failed = failed || stage.contains("error");
  const bool found_error =
      std::any_of(findings.begin(), findings.end(),
                  [](const Finding& finding) { return finding.severity == Severity::error; });
  if (failed && !found_error) return "findings: a stage failed, and lint finds no error";
  if (recorded.contains("messages") && findings.empty())
    return "findings: the real tool warns, and lint finds nothing";
  return {};
}

std::string deepspeed_findings_difference(const Json& input, const Json& recorded) {
  const Json& config = input.at("config");
  if (config.is_string() && !input.value("as_file", true)) return {};
  const std::string text = config.is_string() ? config.get<std::string>() : config.dump(1);
  return findings_difference(
      lint_deepspeed_config(text, "ds.json", {.world = input.value("world", 1), .plain = true}),
      recorded);
}

std::string training_args_findings_difference(const Json& input, const Json& recorded) {
  if (input.contains("launch_yaml") || input.contains("command_line")) return {};
  TrainerRun run{.read_file = files_of(input)};
  if (input.value("trainer", false))
    for (const TreeModule& module : tiny_model(input.value("model", "bert")).tree.modules)
      run.model_classes.push_back(module.class_name);
  return findings_difference(
      lint_training_arguments(input.at("args").dump(1), "training_args.json", run), recorded);
}

}  // namespace shardscope::recordings
