// Scalars that YAML 1.1 makes something else of than they look like.
#include <fmt/format.h>

#include <array>

#include "core/base/refusal.h"
#include "core/base/utf8.h"
#include "core/config/accelerate/lint_rules.h"
#include "core/config/values/python_number.h"
#include "core/format/python_text.h"

namespace shardscope::accelerate {
namespace {

bool is_whole_number(std::string_view text) {
  try {
    python_integer(text);
    return true;
  } catch (const Refusal&) {
    return false;
  }
}

/// Keys whose values are words.
void lint_words(LintContext& context) {
  constexpr std::array<std::string_view, 3> keys{"mixed_precision", "distributed_type",
                                                 "dynamo_backend"};
  for (const std::string_view key : keys) {
    const ConfigValue::Entry* entry = context.top(key);
    if (entry == nullptr || !entry->value.is_boolean()) continue;
    context.add({.rule = "unquoted-word",
                 .severity = Severity::error,
                 .message = fmt::format("YAML 1.1 reads this word as {}, which is no {}",
                                        entry->value.str(), key),
                 .mend = fmt::format("put it in quotes: {}: '{}'", key,
                                     key == "distributed_type" ? "NO" : "no")},
                *entry);
  }
}

bool is_number_text(const ConfigValue& value) {
  if (!value.is_string()) return false;
  try {
    python_float_of(value.string());
    return true;
  } catch (const Refusal&) {
    return false;
  }
}

/// fsdp_min_num_params goes through int(): no exponent, no fraction.
void lint_element_count(LintContext& context) {
  const ConfigValue::Entry* entry = context.fsdp("fsdp_min_num_params");
  if (entry == nullptr) return;
  const bool is_whole_text = entry->value.is_string() && entry->value.string().find_first_not_of(
                                                             "0123456789_ ") == std::string::npos;
  if (is_whole_text || (!entry->value.is_double() && !is_number_text(entry->value))) return;
  const bool read = context.plugin() != nullptr && context.plugin()->wrap == WrapPolicy::size;
  const bool fails = context.resolution().plugin && context.resolution().plugin->error;
  context.add({.rule = "number-form",
               .severity = fails ? Severity::error : Severity::warning,
               .message = fmt::format(
                   "this is {} in YAML 1.1, and SIZE_BASED_WRAP needs an integer{}",
                   entry->value.is_double() ? "a float" : "text",
                   read || fails ? "" : "; it passes unseen because nothing reads it now"),
               .mend = "write the digits out: 100000000"},
              *entry, "fsdp_config");
}

void lint_quoted_number(LintContext& context) {
  for (const char* key : {"num_processes", "num_machines"}) {
    const ConfigValue::Entry* entry = context.top(key);
    if (entry == nullptr || !entry->value.is_string()) continue;
    if (!is_whole_number(entry->value.string())) {
      context.add({.rule = "number-form",
                   .severity = Severity::error,
                   .message = fmt::format("expected a whole number, got \"{}\"",
                                          shown(entry->value.string())),
                   .mend = "write the digits, such as 8"},
                  *entry);
      continue;
    }
    context.add({.rule = "quoted-number",
                 .message = "a number in quotes is text: it passes where nothing computes with it "
                            "and fails where something does",
                 .mend = "remove the quotes"},
                *entry);
  }
}

/// How an integer is written decides its value: 010 is 8, 1:30 is 90.
void lint_notation(LintContext& context, const ConfigValue& value, const std::string& path) {
  if (!value.is_dict()) return;
  for (const ConfigValue::Entry& entry : value.entries()) {
    const std::string key = path.empty() ? entry.key : path + "." + entry.key;
    lint_notation(context, entry.value, key);
    if (!entry.value.is_integer()) continue;
    const std::string_view line = context.line_text(entry.value.line());
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    std::string_view word = stripped(line.substr(colon + 2));
    word = word.substr(0, word.find_first_of(" ,}#"));
    const bool octal = word.size() > 1 && word[0] == '0' && word[1] >= '0' && word[1] <= '7';
    const bool sixtieths = !word.empty() && word.find(':') != std::string_view::npos &&
                           word.find_first_not_of("0123456789_:+-") == std::string_view::npos;
    if (!octal && !sixtieths) continue;
    context.add({.rule = "number-form",
                 .message = fmt::format("YAML 1.1 reads {} as {} ({})", word, entry.value.str(),
                                        octal ? "octal" : "base 60"),
                 .mend = "write it in plain decimal"},
                entry.line, key);
  }
}

}  // namespace

void lint_scalars(LintContext& context) {
  lint_words(context);
  lint_element_count(context);
  lint_quoted_number(context);
  lint_notation(context, context.file(), {});
}

}  // namespace shardscope::accelerate
