#include "core/config/script_arguments.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/config/recipe/command_line.h"
#include "core/config/trainer/training_args_fields.h"
#include "core/config/values/config_json.h"
#include "core/config/yaml/yaml_reader.h"

namespace shardscope {
namespace {

ScriptArguments of_the_trainer(const ConfigValue& all, const std::string& file) {
  if (!all.is_dict())
    throw Error({.where = file,
                 .what = fmt::format("expected keys and values, got {}", all.type_name()),
                 .way_out = "give the arguments of a script"});
  ScriptArguments result{.arguments = ConfigValue::dict(), .own = {}};
  for (const ConfigValue::Entry& entry : all.entries())
    if (find_training_argument(entry.key) != nullptr)
      result.arguments.set(entry.key, entry.value);
    else
      result.own.push_back(entry.key);
  return result;
}

/// Of the command that has options of the Trainer: others prepare data or install packages.
ScriptArguments of_the_command(const ConfigFile& file) {
  std::vector<ScriptArguments> trainings;
  for (const ConfigValue& command : recipes::script_command_lines(file.text, file.name())) {
    ScriptArguments one = of_the_trainer(command, file.name());
    if (!one.arguments.entries().empty()) trainings.push_back(std::move(one));
  }
  if (trainings.size() == 1) return std::move(trainings.front());
  throw Error({.where = file.name(),
               .what = trainings.empty()
                           ? std::string("no command starts a script with TrainingArguments")
                           : fmt::format("{} commands start scripts with TrainingArguments",
                                         trainings.size()),
               .way_out = "give a script with one `accelerate launch train.py --bf16 true ...`, or "
                          "the YAML or JSON file that the script reads"});
}

}  // namespace

ScriptArguments script_arguments(const ConfigFile& file) {
  const std::string extension = file.path.extension().string();
  const std::size_t first = file.text.find_first_not_of(" \t\r\n");
  // What a tool makes of its file is JSON under that file's name.
  const bool is_json = first != std::string::npos && file.text[first] == '{';
  if (is_json || (extension != ".sh" && extension != ".yaml" && extension != ".yml"))
    return {.arguments = read_json(file.text, file.name()), .own = {}};
  if (extension != ".sh") return of_the_trainer(read_yaml(file.text, file.name()), file.name());
  return of_the_command(file);
}

}  // namespace shardscope
