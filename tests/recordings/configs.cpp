#include "tests/recordings/configs.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "tests/recordings/json_difference.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<ConfigsFile>& files() {
  static const std::vector<ConfigsFile> all{
      {"accelerate_yaml", accelerate_yaml_result, accelerate_findings_difference},
      {"auto_accelerate", auto_accelerate_result},
      {"auto_transformers", auto_transformers_result},
      {"deepspeed", deepspeed_result, deepspeed_findings_difference},
      {"deepspeed_estimators", deepspeed_estimators_result},
      {"estimate", estimate_result},
      {"to_fsdp2", to_fsdp2_result},
      {"training_args", training_args_result, training_args_findings_difference},
      {"wizard", wizard_result},
  };
  return all;
}

/// The stages that the files record, in their order.
const std::vector<std::string> stages{
    "loaded",         "launch",       "plugin",  "prepared",           "after_process",
    "after_finalize", "effective",    "output",  "training_arguments", "trainer",
    "convert_bytes",  "answers_left", "findings"};

std::vector<std::string> cases(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::string& file : recorded_names(folder, {"cases", "parser_defaults"})) {
    const Json recording = recorded_json(folder, file);
    for (const Json& row : recording.at("cases"))
      names.push_back(file + "/" + row.at("name").get<std::string>());
  }
  return names;
}

Json case_of(const std::filesystem::path& folder, const std::string& file,
             const std::string& name) {
  Json recording = recorded_json(folder, file);
  for (Json& row : recording.at("cases"))
    if (row.at("name") == name) return std::move(row);
  throw Error({.where = (folder / (file + ".json")).string(),
               .what = fmt::format("has no case \"{}\"", name),
               .way_out = {}});
}

/// An error's text is the library's own wording: its class must be the same, wherever it stands.
/// The order of classes taken from _no_split_modules, a set, is that of Python's hashes.
void drop_messages(Json& value) {
  if (!value.is_structured()) return;
  if (value.is_object() && value.contains("after_set_auto_wrap_policy"))
    if (Json& after = value["after_set_auto_wrap_policy"];
        after.contains("transformer_cls_names_to_wrap"))
      std::sort(after["transformer_cls_names_to_wrap"].begin(),
                after["transformer_cls_names_to_wrap"].end());
  if (value.is_object() && value.contains("error") && value["error"].is_object())
    value["error"].erase("message");
  for (Json& child : value) drop_messages(child);
}

/// accelerate lists a set of the model's classes here: its order is another in every process.
void sort_classes(Json& value) {
  if (!value.is_structured()) return;
  if (value.is_object() && value.contains("transformer_cls_names_to_wrap")) {
    Json& names = value["transformer_cls_names_to_wrap"];
    if (names.is_array()) std::sort(names.begin(), names.end());
  }
  for (Json& child : value) sort_classes(child);
}

std::string difference(Json recorded, Json got, const Options& options) {
  for (Json* value : {&recorded, &got}) {
    drop_messages(*value);
    sort_classes(*value);
  }
  recorded.erase("messages");
  for (const auto& [stage, value] : recorded.items()) {
    if (options.leaves_out(stage)) continue;
    if (!got.contains(stage)) return stage + ": is missing";
    const std::string found = json_difference(stage, value, got.at(stage));
    if (!found.empty()) return found;
  }
  for (const auto& [stage, value] : got.items())
    if (!recorded.contains(stage)) return stage + ": was not recorded";
  return {};
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  const std::size_t slash = std::min(name.find('/'), name.size());
  const std::string file = name.substr(0, slash);
  const auto found = std::find_if(files().begin(), files().end(),
                                  [&](const ConfigsFile& f) { return f.name == file; });
  if (found == files().end())
    return {.difference = "nothing computes " + file, .worst_share = {}, .worst = {}};
  const Json recorded = case_of(folder, file, name.substr(slash + 1));
  const Json& input = recorded.at("input");
  const Json& result = recorded.at("result");
  std::string first = difference(result, found->result(input), options);
  if (first.empty() && found->findings_difference != nullptr && !options.leaves_out("findings"))
    first = found->findings_difference(input, result);
  return {.difference = first, .worst_share = {}, .worst = {}};
}

}  // namespace

Kind configs_kind() {
  return {.name = "configs", .fields = stages, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
