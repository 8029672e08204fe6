// shardscope convert: the configuration of one tool as that of another.
#include "core/config/convert/convert.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/config_options.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/verb.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

struct ConvertCommand {
  ConfigOptions config;
  std::optional<std::string> to, output_path;
  OutputOptions output;
};

std::string to_json(const Conversion& conversion, ConfigFormat format) {
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const Loss& loss : conversion.losses)
    losses.push_back({{"key", loss.key}, {"why", loss.why}});
  const nlohmann::ordered_json json{{"schema", "shardscope.convert/1"},
                                    {"format", name_of(format)},
                                    {"text", conversion.text},
                                    {"losses", std::move(losses)}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

ExitCode run_convert(const ConvertCommand& command) {
  if (!command.to)
    throw Error({.where = "--to",
                 .what = "no format was given",
                 .way_out = "give accelerate-v1, accelerate-v2 or deepspeed"});
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
                 {"FORMAT", "accelerate-v1, accelerate-v2 (accelerate), deepspeed"});
  command.option("-o", options->output_path, {"FILE", "output file (default: standard output)"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope convert examples/configs/fsdp_v1.yaml --to accelerate-v2",
        "the same training under FSDP2; what is lost goes to standard error"},
       {"shardscope convert examples/configs/fsdp_v1.yaml --to deepspeed -o ds_config.json",
        "the same training as ZeRO, written to a file"},
       {"shardscope convert examples/configs/zero3_auto.json --to accelerate-v1 --world 16 "
        "--ranks-per-node 8",
        "the same training as FSDP1 on 2 nodes of 8 GPUs"}});
  command.action([options] { return run_convert(*options); });
}

}  // namespace shardscope
