// Rewrites the configuration of one tool for another: a reader and a writer per format around
// PortableStrategy, and what each format cannot say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/convert/portable_strategy.h"
#include "core/config/values/config_value.h"
#include "core/config/workers.h"

namespace shardscope {

/// accelerate's YAML with fsdp_version 1 or 2, and DeepSpeed's JSON.
enum class ConfigFormat : std::uint8_t { accelerate_v1, accelerate_v2, deepspeed };
inline constexpr ConfigFormat config_formats[] = {
    ConfigFormat::accelerate_v1, ConfigFormat::accelerate_v2, ConfigFormat::deepspeed};

/// "accelerate-v1", "accelerate-v2", "deepspeed".
std::string_view name_of(ConfigFormat format);
/// Also "accelerate" (version 2), "fsdp1" and "fsdp2"; throws Error naming `where` and the choices.
ConfigFormat parse_config_format(std::string_view text, std::string_view where);

/// A key whose meaning does not survive, and why.
struct Loss {
  std::string key;
  std::string why;
  bool operator==(const Loss&) const = default;
};

/// A strategy as one format can hold it.
struct FittedStrategy {
  PortableStrategy strategy;
  std::vector<Loss> losses;
};

/// What of a strategy a format can say; the nearest where it has no equal. The mapping: full_shard
/// is ZeRO stage 3, shard_grad_op stage 2, no_shard stage 0 (DDP), hybrid_shard stage 3 with
/// zero_hpz_partition_size; hybrid_shard_zero2 and zero1 have no equal everywhere.
/// Source: accelerate 1.15.0 docs/source/concept_guides/fsdp_and_deepspeed.md.
FittedStrategy fitted(const PortableStrategy& strategy, ConfigFormat format);

/// The file's content. `strategy` must be one that `fitted` gave for this format.
ConfigValue written(const PortableStrategy& strategy, ConfigFormat format);

/// A DeepSpeed configuration; "auto" is left to whoever fills it in.
PortableStrategy read_deepspeed_strategy(const ConfigValue& config);

/// Any file, as the real tools would run it: defaults filled in, what is ignored left out. `value`
/// is value_of(file). Throws Error or Refusal where they would refuse.
PortableStrategy read_strategy(const ConfigFile& file, const ConfigValue& value,
                               const ConfigPlace& place);

struct Conversion {
  std::string text;          ///< of the new file
  std::vector<Loss> losses;  ///< what it cannot say
};

/// Reads a file and writes it in a format. The text reads back to the same strategy, but for the
/// losses.
Conversion convert(const ConfigFile& file, ConfigFormat format, const ConfigPlace& place);

/// DeepSpeed gathers parameters module by module; the nearest that FSDP has is a unit per layer.
inline PortableWrap deepspeed_wrap() { return {.policy = WrapPolicy::transformer}; }

bool is_hybrid(const PortableStrategy& strategy);

}  // namespace shardscope
