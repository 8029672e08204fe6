// shardscope convert: the configuration of one tool as that of another.
#include "core/config/convert/convert.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/config_options.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/verb.h"
#include "core/config/convert/portable_recipe.h"
#include "core/config/recipe_file.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

struct ConvertCommand {
  ConfigOptions config;
  std::optional<std::string> to, output_path;
  OutputOptions output;
};

nlohmann::ordered_json json_of(std::span<const Loss> losses) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Loss& loss : losses) json.push_back({{"key", loss.key}, {"why", loss.why}});
  return json;
}

std::string to_json(const Conversion& conversion, ConfigFormat format) {
  const nlohmann::ordered_json json{{"schema", "shardscope.convert/1"},
                                    {"format", name_of(format)},
                                    {"text", conversion.text},
                                    {"losses", json_of(conversion.losses)}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string to_json(const RecipeConversion& conversion, std::string_view format) {
  const nlohmann::ordered_json json{{"schema", "shardscope.convert/1"},
                                    {"format", format},
                                    {"text", conversion.text},
                                    {"losses", json_of(conversion.losses)},
                                    {"left_out", json_of(conversion.left_out)}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

ExitCode convert_recipe_file(const ConvertCommand& command, RecipeTool to) {
  const ConfigFile file = command.config.read();
  if (command.output_path) {
    refuse_over_input(*command.output_path, file.path, "-o");
    require_writable(*command.output_path);
  }
  const RecipeConversion conversion =
      convert_recipe(recipe_tool_of(file), file.text, file.name(), to);
  if (!command.output.quiet && !command.output.json) {
    for (const Loss& loss : conversion.losses)
      print_error(fmt::format("lost: {}: {}", loss.key, loss.why));
    for (const Loss& left : conversion.left_out)
      print_error(fmt::format("left out: {}: {}", left.key, left.why));
  }
  if (command.output_path) write_atomically(*command.output_path, conversion.text);
  if (command.output.json)
    print(to_json(conversion, *command.to));
  else if (!command.output_path)
    print(conversion.text);
  return ExitCode::done;
}

ExitCode run_convert(const ConvertCommand& command) {
  if (!command.to)
    throw Error({.where = "--to",
                 .what = "no format was given",
                 .way_out = "give accelerate-v1, accelerate-v2 or deepspeed, or llama-factory, "
                            "trl, axolotl or ms-swift"});
  if (const auto tool = written_tool(*command.to)) return convert_recipe_file(command, *tool);
  const ConfigFormat format = parse_config_format(*command.to, "--to");
  const ConfigFile file = command.config.read();
  if (command.output_path) {
    refuse_over_input(*command.output_path, file.path, "-o");
    require_writable(*command.output_path);
  }
  const Conversion conversion = convert(file, format, command.config.place());
  if (!command.output.quiet && !command.output.json)
    for (const Loss& loss : conversion.losses)
      print_error(fmt::format("lost: {}: {}", loss.key, loss.why));
  if (command.output_path) write_atomically(*command.output_path, conversion.text);
  if (command.output.json)
    print(to_json(conversion, format));
  else if (!command.output_path)
    print(conversion.text);
  return ExitCode::done;
}

}  // namespace

void declare_convert(Command& command) {
  const auto options = std::make_shared<ConvertCommand>();
  declare_config_options(command, options->config);
  command.option("--to", options->to,
                 {"FORMAT",
                  "accelerate-v1, accelerate-v2 (accelerate), deepspeed; of a fine-tuning tool's "
                  "file: llama-factory, trl, axolotl, ms-swift"});
  command.option("-o", options->output_path, {"FILE", "output file (default: standard output)"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope convert examples/configs/fsdp_v1.yaml --to accelerate-v2",
        "the same training under FSDP2; what is lost goes to standard error"},
       {"shardscope convert examples/configs/fsdp_v1.yaml --to deepspeed -o ds_config.json",
        "the same training as ZeRO, written to a file"},
       {"shardscope convert qlora.yml --to llama-factory -o qlora.yaml",
        "axolotl's file as LLaMA-Factory's; keys with no counterpart go to standard error"},
       {"shardscope convert examples/configs/zero3_auto.json --to accelerate-v1 --world 16 "
        "--ranks-per-node 8",
        "the same training as FSDP1 on 2 nodes of 8 GPUs"}});
  command.action([options] { return run_convert(*options); });
}

}  // namespace shardscope
