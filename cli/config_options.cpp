#include "cli/config_options.h"

#include <fmt/format.h>

namespace shardscope {
namespace {

constexpr std::int64_t largest_world = 1 << 20;

void check_size(const std::optional<std::int64_t>& value, std::string_view name) {
  if (!value || (*value >= 1 && *value <= largest_world)) return;
  throw Error({.where = std::string(name),
               .what = fmt::format("expected 1 to {}, got {}", largest_world, *value)});
}

}  // namespace

ConfigFile ConfigOptions::read() const {
  if (!path)
    throw Error({.where = "CONFIG",
                 .what = "no configuration file was given",
                 .way_out = "give accelerate's YAML, DeepSpeed's JSON or TrainingArguments"});
  if (!format) return read_config_file(*path);
  return read_config_file(*path, parse_config_kind(*format, "--format"));
}

ConfigPlace ConfigOptions::place() const {
  check_size(world, "--world");
  check_size(ranks_per_node, "--ranks-per-node");
  return {.world = world, .ranks_per_node = ranks_per_node};
}

void declare_config_options(Command& command, ConfigOptions& options) {
  command.positional(
      "CONFIG", options.path,
      "accelerate's YAML or JSON, DeepSpeed's JSON, TrainingArguments or fsdp_config "
      "as JSON, the file of a fine-tuning tool, or a script with Megatron-LM's command line");
  command.option("--format", options.format,
                 {"NAME",
                  "accelerate, deepspeed, training-arguments, fsdp-config (default: by the keys of "
                  "the file)"});
  command.option("--world", options.world, {"N", "number of ranks, if the file does not say"});
  command.option("--ranks-per-node", options.ranks_per_node, {"N", "ranks of a node"});
}

}  // namespace shardscope
