#include "tests/recordings/ports/to_fsdp2.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "core/base/refusal.h"

namespace shardscope::accelerate {
namespace {

constexpr std::string_view reshard_key = "fsdp_reshard_after_forward";

bool is_removed(std::string_view key) {
  return key == "fsdp_backward_prefetch" || key == "fsdp_sync_module_states" ||
         key == "fsdp_use_orig_params";
}

/// A strategy by its exact name to what version 2 says instead; the rest as it is.
ConfigValue resharding_of(const ConfigValue& strategy) {
  struct Meaning {
    std::string_view strategy;
    bool reshards;
  };
  constexpr std::array<Meaning, 5> meanings{
      Meaning{"FULL_SHARD", true}, Meaning{"SHARD_GRAD_OP", false}, Meaning{"HYBRID_SHARD", true},
      Meaning{"HYBRID_SHARD_ZERO2", false}, Meaning{"NO_SHARD", false}};
  // A dict's get() needs a key that can be hashed.
  if (strategy.is_list() || strategy.is_dict())
    throw Refusal("TypeError",
                  {.where = {},
                   .what = fmt::format("a {} is no sharding strategy", strategy.type_name()),
                   .way_out = "name one of them"},
                  strategy.line());
  for (const Meaning& meaning : meanings)
    if (strategy.is(meaning.strategy)) return meaning.reshards;
  return strategy;
}

void convert_member(const ConfigValue::Entry& entry, ConfigValue& converted,
                    std::vector<std::string>& warnings) {
  const bool is_text = entry.key_type == "str";
  if (is_text && is_removed(entry.key)) {
    warnings.push_back(fmt::format("{} has been removed in FSDP2", entry.key));
  } else if (is_text && entry.key == "fsdp_forward_prefetch") {
    warnings.push_back(fmt::format("{} is not yet implemented in FSDP2", entry.key));
  } else if (is_text && (entry.key == "fsdp_sharding_strategy" || entry.key == reshard_key)) {
    converted.set(reshard_key, resharding_of(entry.value));
  } else if (is_text) {
    converted.set(entry.key, entry.value);
  } else {
    converted.entries().push_back(entry);
  }
}

}  // namespace

ToFsdp2 to_fsdp2(const ConfigValue& file) {
  if (!file.truthy()) throw Refusal("ValueError", "the file is empty");
  if (!file.is_dict())
    throw Refusal("AttributeError", fmt::format("the file holds a {}", file.type_name()));
  ToFsdp2 result{.config = file};
  const ConfigValue* section = file.find("fsdp_config");
  if (section == nullptr || !section->truthy()) return result;
  if (!section->is_dict())
    throw Refusal("AttributeError",
                  {.where = {}, .what = "fsdp_config is no mapping", .way_out = {}},
                  section->line());
  if (section->get("fsdp_version") == ConfigValue(2)) {
    result.warnings.emplace_back("the file says fsdp_version 2 already; nothing is changed");
    return result;
  }
  ConfigValue converted = ConfigValue::dict();
  for (const ConfigValue::Entry& entry : section->entries())
    convert_member(entry, converted, result.warnings);
  converted.set("fsdp_version", 2);
  result.config.set("fsdp_config", std::move(converted));
  return result;
}

}  // namespace shardscope::accelerate
