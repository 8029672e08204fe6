// Sections of a DeepSpeed configuration as its pydantic models check them: tables of fields, and
// the one function that walks them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/values/config_value.h"

namespace shardscope {

struct PydanticModel;

/// What pydantic 2 takes for a field in its lax mode, and turns into.
enum class FieldKind : std::uint8_t {
  boolean,       ///< bool; 0, 1; "true", "off", "y" ... in any case
  integer,       ///< int; whole floats; "5", "5.0", "5_000"; true is 1
  number,        ///< float; ints; "0.5"
  text,          ///< str only
  path,          ///< str, normalized as pathlib does
  word,          ///< str, one of `words`
  whole_choice,  ///< an integer from 0 to `limits.le`
  text_or_integer,
  list,       ///< of anything
  text_list,  ///< of str
  word_list,  ///< of `words`
  dict,       ///< of anything
  model,      ///< a dict for `model`
  anything,
  object,  ///< a Python object, which no file can hold
};

struct FieldLimits {
  std::optional<double> gt, ge, lt, le;
};

/// json_schema_extra of a deprecated field.
struct Deprecation {
  std::string_view new_field;       ///< for the message
  std::string_view new_json_name;   ///< the field that is set; empty: none is
  std::string_view new_field_name;  ///< its Python name
  /// new_param_fn; null: the value itself.
  ConfigValue (*converted)(const ConfigValue&) = nullptr;
};

struct ModelField {
  std::string_view name;   ///< in JSON: the alias where there is one
  std::string_view field;  ///< the Python name, which JSON may use too; empty: the same
  FieldKind kind = FieldKind::anything;
  ConfigValue otherwise;  ///< the default
  bool nullable = false;
  FieldLimits limits;
  std::vector<std::string_view> words;
  const PydanticModel* model = nullptr;
  std::optional<Deprecation> deprecation;
  bool hidden = false;  ///< left out of the result
};

struct PydanticModel {
  std::string_view name;  ///< "DeepSpeedZeroConfig"
  std::vector<ModelField> fields;
  /// mode="before": may change what was given.
  void (*before)(ConfigValue& given) = nullptr;
  /// mode="after": may change what was made, throws Refusal of a ValueError or AssertionError.
  void (*after)(ConfigValue& made) = nullptr;
};

/// Model(**given): every field under its JSON name, in the model's order. As in
/// DeepSpeedConfigModel "auto" is dropped (unless "strict" stands beside it), an unknown key is
/// refused, and a deprecated field moves to its successor. Raises ValidationError, TypeError where
/// `given` is no dict, AssertionError where old and new name stand together. `section` is the key
/// path for messages. `warnings` gets one line for every deprecated key.
/// Source: deepspeed 0.19.8 runtime/config_utils.py; pydantic 2.
ConfigValue validated(const PydanticModel& model, const ConfigValue& given,
                      std::string_view section, std::vector<std::string>* warnings = nullptr);

}  // namespace shardscope
