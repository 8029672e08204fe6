// A configuration file of one of the real tools: which tool it is for is found by its keys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace shardscope {

enum class ConfigKind : std::uint8_t {
  accelerate,          ///< `accelerate launch --config_file`: YAML, or JSON by its name
  deepspeed,           ///< DeepSpeed's JSON
  training_arguments,  ///< transformers' TrainingArguments as JSON
  fsdp_config,         ///< the file of TrainingArguments(fsdp_config=...)
  // Of tools that train, which core/config/recipe reads: YAML, or a script with a command.
  trl,
  axolotl,
  llama_factory,
  torchtune,
  litgpt,
  ms_swift,
  torchtitan,  ///< TOML, or a function of a Python module
  megatron,    ///< the command line of Megatron-LM (core/config/megatron)
};
/// "accelerate", "deepspeed", "training-arguments", "fsdp-config", "trl", "axolotl",
/// "llama-factory", "torchtune", "litgpt", "ms-swift", "torchtitan", "megatron".
std::string_view name_of(ConfigKind kind);
/// Throws Error naming `where` and the choices.
ConfigKind parse_config_kind(std::string_view text, std::string_view where);

struct ConfigFile {
  std::filesystem::path path;
  ConfigKind kind = ConfigKind::accelerate;
  std::string text;

  std::string name() const { return path.string(); }
};

/// Reads a file and, unless `kind` says so, finds out whose it is: the tool that knows most of its
/// top-level keys. Throws Error where it cannot be read, is larger than 8 MiB or is nobody's.
ConfigFile read_config_file(const std::filesystem::path& path,
                            std::optional<ConfigKind> kind = std::nullopt);

}  // namespace shardscope
