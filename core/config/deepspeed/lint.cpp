#include "core/config/deepspeed/lint.h"

#include <fmt/format.h>

#include <charconv>

#include "core/base/refusal.h"
#include "core/config/deepspeed/hjson.h"
#include "core/config/deepspeed/lint_rules.h"
#include "core/config/values/config_json.h"

namespace shardscope {
namespace {

/// The line in "file:12: key"; 0 where there is none.
int line_in(const std::string& where, const std::string& file) {
  int line = 0;
  if (where.starts_with(file + ":")) {
    const char* begin = where.data() + file.size() + 1;
    std::from_chars(begin, where.data() + where.size(), line);
  }
  return line;
}

void add_duplicates(const ConfigValue& value, const std::string& path, FindingList& findings) {
  if (value.is_list())
    for (const ConfigValue& element : value.elements()) add_duplicates(element, path, findings);
  if (!value.is_dict()) return;
  for (const DuplicateKey& duplicate : value.duplicates())
    findings.add(
        {.rule = "duplicate-key",
         .severity = Severity::error,
         .message = fmt::format("the key stands in line {} too: DeepSpeed refuses the file, "
                                "accelerate and the Trainer take the later one",
                                duplicate.first_line),
         .mend = "keep one of them"},
        duplicate.line, path.empty() ? duplicate.key : path + "." + duplicate.key);
  for (const ConfigValue::Entry& entry : value.entries())
    add_duplicates(entry.value, path.empty() ? entry.key : path + "." + entry.key, findings);
}

/// DeepSpeed reads Hjson, accelerate and the Trainer only JSON.
void add_strictness(std::string_view text, const std::string& file, FindingList& findings) {
  try {
    read_json(text, file);
  } catch (const Refusal& refusal) {
    findings.add(
        {.rule = "not-json",
         .message = fmt::format("DeepSpeed reads this as Hjson; accelerate and the Trainer "
                                "read JSON and stop here: {}",
                                refusal.parts().what),
         .mend = "write plain JSON: no comments, quoted keys, no trailing commas"},
        line_in(refusal.parts().where, file), "");
  }
}

}  // namespace

std::vector<Finding> lint_deepspeed_config(std::string_view text, const std::string& file,
                                           const DeepSpeedRun& run) {
  FindingList findings(file);
  ConfigValue config;
  try {
    config = read_hjson(text, file, DuplicateKeys::last_wins);
  } catch (const Error& error) {
    findings.add({.rule = "unreadable",
                  .severity = Severity::error,
                  .message = "DeepSpeed cannot read the file: " + error.parts().what,
                  .mend = error.parts().way_out.empty() ? "mend the JSON" : error.parts().way_out},
                 line_in(error.parts().where, file), "");
    return findings.take();
  }
  add_strictness(text, file, findings);
  add_duplicates(config, "", findings);
  if (!config.is_dict()) {
    findings.add({.rule = "refused-value",
                  .severity = Severity::error,
                  .message = "DeepSpeed expects { ... } with keys",
                  .mend = "write { \"train_batch_size\": ... }"},
                 config.line(), "");
    return findings.take();
  }
  const DeepSpeedLint lint{.config = config, .run = run, .findings = findings};
  lint_keys(lint);
  lint_values(lint);
  lint_stages(lint);
  lint_together(lint);
  return findings.take();
}

const ConfigValue& DeepSpeedLint::zero() const {
  static const ConfigValue empty = ConfigValue::dict();
  const ConfigValue* zero = config.find("zero_optimization");
  return zero != nullptr && zero->is_dict() ? *zero : empty;
}

std::int64_t DeepSpeedLint::stage() const {
  const ConfigValue* section = config.find("zero_optimization");
  if (section != nullptr && section->is_boolean()) return section->boolean() ? 1 : 0;
  const ConfigValue* stage = zero().find("stage");
  if (stage == nullptr || stage->is("auto")) return 0;
  if (stage->is_string() && stage->string().size() == 1 && stage->string() >= "0" &&
      stage->string() <= "3")
    return stage->string().front() - '0';
  const bool known = stage->is_number() && stage->number() >= 0 && stage->number() <= 3;
  return known ? static_cast<std::int64_t>(stage->number()) : -1;
}

}  // namespace shardscope
