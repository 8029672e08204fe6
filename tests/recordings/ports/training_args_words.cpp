#include "tests/recordings/ports/training_args_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/refusal.h"
#include "core/config/trainer/training_args_fields.h"
#include "core/config/values/python_number.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

Refusal exit_of_parser(std::string_view word, std::string what) {
  return Refusal("SystemExit",
                 {.where = std::string(word), .what = std::move(what), .way_out = {}});
}

bool is_option(std::string_view word) { return word.starts_with('-') && word.size() > 1; }

/// string_to_bool of hf_argparser.
bool truth_of(std::string_view option, const std::string& text) {
  constexpr std::array<std::string_view, 5> yes{"yes", "true", "t", "y", "1"};
  constexpr std::array<std::string_view, 5> no{"no", "false", "f", "n", "0"};
  const std::string word = lower_of(text);
  if (std::find(yes.begin(), yes.end(), word) != yes.end()) return true;
  if (std::find(no.begin(), no.end(), word) != no.end()) return false;
  throw exit_of_parser(option, fmt::format("expected true or false, got \"{}\"", text));
}

ConfigValue converted(const TrainingArgumentField& field, std::string_view option,
                      const std::string& text) {
  try {
    switch (field.kind) {
      case ArgumentKind::boolean:
      case ArgumentKind::optional_boolean:
        return truth_of(option, text);
      case ArgumentKind::integer:
      case ArgumentKind::optional_integer:
        return python_integer(text);
      case ArgumentKind::number:
      case ArgumentKind::optional_number:
        return python_float_of(text);
      case ArgumentKind::text:
      case ArgumentKind::other:
        return text;
    }
  } catch (const Refusal& refusal) {
    if (refusal.exception() != "ValueError") throw;
  }
  throw exit_of_parser(option, fmt::format("expected a number, got \"{}\"", text));
}

/// "--per-device-train-batch-size" names the field with underscores.
std::string field_name_of(std::string_view option) {
  std::string name(option.substr(2));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// --no_NAME switches off a bool that is on by default.
const TrainingArgumentField* switched_off(const std::string& name) {
  if (!name.starts_with("no_")) return nullptr;
  const TrainingArgumentField* field = find_training_argument(std::string_view(name).substr(3));
  const bool on =
      field != nullptr && field->otherwise == ConfigValue(true) && field->otherwise.is_boolean();
  return on ? field : nullptr;
}

/// Bools and fsdp may stand alone.
bool may_stand_alone(const TrainingArgumentField& field) {
  return field.kind == ArgumentKind::boolean || field.name == "fsdp";
}

}  // namespace

ConfigValue training_arguments_of_words(std::span<const std::string> words) {
  ConfigValue arguments = ConfigValue::dict();
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view option = word.substr(0, equals);
    const std::string name = option.starts_with("--") ? field_name_of(option) : std::string();
    if (const TrainingArgumentField* field = switched_off(name)) {
      arguments.set(field->name, false);
      continue;
    }
    const TrainingArgumentField* field = name.empty() ? nullptr : find_training_argument(name);
    if (field == nullptr) {
      unused.emplace_back(word);
      continue;
    }
    const bool value_follows = i + 1 < words.size() && !is_option(words[i + 1]);
    if (equals < word.size())
      arguments.set(name, converted(*field, option, std::string(word.substr(equals + 1))));
    else if (value_follows)
      arguments.set(name, converted(*field, option, words[++i]));
    else if (may_stand_alone(*field))
      arguments.set(name, true);
    else
      throw exit_of_parser(option, "expected a value");
  }
  if (!unused.empty())
    throw Refusal("ValueError", {.where = unused.front(),
                                 .what = "TrainingArguments of transformers 5 has no such argument",
                                 .way_out = "remove it"});
  return arguments;
}

}  // namespace shardscope
