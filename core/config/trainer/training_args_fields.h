// The fields of transformers.TrainingArguments.
#pragma once

#include <span>
#include <string_view>

#include "core/config/values/config_value.h"

namespace shardscope {

/// How HfArgumentParser reads a field from the command line.
enum class ArgumentKind : std::uint8_t {
  boolean,           ///< with or without a value
  optional_boolean,  ///< with a value
  integer,
  number,
  optional_integer,
  optional_number,
  text,
  other,  ///< text that the field takes apart itself
};

struct TrainingArgumentField {
  std::string_view name;
  ArgumentKind kind = ArgumentKind::other;
  ConfigValue otherwise;  ///< the default
};

/// In the dataclass's order. Source: transformers 5.23.0 training_args.py.
std::span<const TrainingArgumentField> training_argument_fields();
/// Null where TrainingArguments has no such field.
const TrainingArgumentField* find_training_argument(std::string_view name);

}  // namespace shardscope
