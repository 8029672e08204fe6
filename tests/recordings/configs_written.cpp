// to_fsdp2 and wizard: files that accelerate writes.
#include <algorithm>
#include <map>

#include "core/base/refusal.h"
#include "core/config/yaml/yaml_reader.h"
#include "core/config/yaml/yaml_writer.h"
#include "tests/recordings/configs.h"
#include "tests/recordings/configs_plain.h"
#include "tests/recordings/ports/questionnaire.h"
#include "tests/recordings/ports/to_fsdp2.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

struct Command {
  std::string config_file;
  std::string output_file;  ///< empty: none
  bool overwrite = false;
};

Command command_of(const Json& input) {
  const Json words =
      input.value("argv", Json::array({"--config_file", "in.yaml", "--output_file", "out.yaml"}));
  Command command;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--overwrite") command.overwrite = true;
    if (i + 1 < words.size() && words[i] == "--config_file") command.config_file = words[i + 1];
    if (i + 1 < words.size() && words[i] == "--output_file") command.output_file = words[i + 1];
  }
  return command;
}

/// The command's own checks of its files, before it reads any.
std::string checked_output(const Command& command,
                           const std::map<std::string, std::string>& files) {
  if (!files.contains(command.config_file)) throw Refusal("FileNotFoundError", "no such file");
  if (!command.overwrite && command.output_file.empty())
    throw Refusal("ValueError", "neither --output_file nor --overwrite");
  if (!command.overwrite && files.contains(command.output_file))
    throw Refusal("FileExistsError", "the output exists");
  return command.output_file.empty() ? command.config_file : command.output_file;
}

}  // namespace

Json to_fsdp2_result(const Json& input) {
  std::map<std::string, std::string> files;
  if (input.contains("yaml")) files["in.yaml"] = input.at("yaml").get<std::string>();
  const Json others = input.value("files", Json::object());
  for (const auto& [name, text] : others.items())
    files[name] = text.is_string() ? text.get<std::string>() : text.dump();
  try {
    const Command command = command_of(input);
    const std::string output = checked_output(command, files);
    const ConfigValue file = read_yaml(files.at(command.config_file), command.config_file);
    const std::string text = yaml_text(accelerate::to_fsdp2(file).config);
    return {
        {"output", {{"file", output}, {"yaml", text}, {"parsed", plain(read_yaml(text, output))}}}};
  } catch (const Refusal& refusal) {
    return {{"output", {{"error", {{"type", refusal.exception()}}}}}};
  }
}

/// Answers are [part of the question, answer], each given once.
Json wizard_result(const Json& input) {
  Json answers = input.at("answers");
  const accelerate::Answer answer = [&](const std::string& question) -> std::optional<std::string> {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (question.find(answers[i][0].get<std::string>()) == std::string::npos) continue;
      const Json given = answers[i][1];
      answers.erase(i);
      return given.is_string() ? given.get<std::string>() : given.dump();
    }
    return std::nullopt;
  };
  Json result;
  try {
    const accelerate::Interview interview = accelerate::interview(answer);
    const std::string text = yaml_text(interview.config);
    Json asked = Json::array();
    for (const accelerate::AskedQuestion& question : interview.asked)
      asked.push_back(Json::array({question.question, question.answer}));
    result["output"] = {
        {"asked", asked}, {"yaml", text}, {"parsed", plain(read_yaml(text, "out.yaml"))}};
  } catch (const Refusal& refusal) {
    result["output"] = {{"error", {{"type", refusal.exception()}}}};
  }
  if (!answers.empty()) result["answers_left"] = answers;
  return result;
}

}  // namespace shardscope::recordings
