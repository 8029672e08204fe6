// to_fsdp2: files that accelerate rewrites.
#include <algorithm>
#include <map>

#include "core/config/accelerate/to_fsdp2.h"
#include "core/config/raised.h"
#include "core/config/yaml_reader.h"
#include "core/config/yaml_writer.h"
#include "tests/recordings/configs.h"
#include "tests/recordings/configs_plain.h"

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
  if (!files.contains(command.config_file)) throw Raised("FileNotFoundError", "no such file");
  if (!command.overwrite && command.output_file.empty())
    throw Raised("ValueError", "neither --output_file nor --overwrite");
  if (!command.overwrite && files.contains(command.output_file))
    throw Raised("FileExistsError", "the output exists");
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
  } catch (const Raised& raised) {
    return {{"output", {{"error", {{"type", raised.type()}}}}}};
  }
}

}  // namespace shardscope::recordings
