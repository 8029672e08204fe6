#include <algorithm>
#include <utility>

#include "core/config/accelerate/lint_rules.h"

namespace shardscope::accelerate {

const FsdpPlugin* LintContext::plugin() const {
  const auto& plugin = resolution_.plugin;
  return plugin && plugin->value ? &*plugin->value : nullptr;
}

std::string with_prefix(std::string_view section, std::string_view key) {
  if (section == "fsdp_config" && !key.starts_with("fsdp")) return "fsdp_" + std::string(key);
  if (section == "fp8_config" && !key.starts_with("fp8")) return "fp8_" + std::string(key);
  if (section == "dynamo_config" && !key.starts_with("dynamo_"))
    return "dynamo_" + std::string(key);
  return std::string(key);
}

const ConfigValue* LintContext::section(std::string_view name) const {
  const ConfigValue* found = file().find(name);
  return found != nullptr && found->is_dict() ? found : nullptr;
}

const ConfigValue::Entry* LintContext::member(std::string_view section_name,
                                              std::string_view name) const {
  const ConfigValue::Entry* found = nullptr;
  // Of two spellings of one key the later one counts.
  if (const ConfigValue* own = section(section_name))
    for (const ConfigValue::Entry& entry : own->entries())
      if (entry.key_type == "str" && with_prefix(section_name, entry.key) == name) found = &entry;
  return found;
}

const ConfigValue::Entry* LintContext::top(std::string_view name) const {
  for (const ConfigValue::Entry& entry : file().entries())
    if (entry.key_type == "str" && entry.key == name) return &entry;
  return nullptr;
}

std::string_view LintContext::line_text(int line) const {
  std::string_view rest = text_;
  for (int at = 1; at < line; ++at) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  return rest.substr(0, rest.find_first_of("\r\n"));
}

void LintContext::add(const Remark& remark, int line, std::string key) {
  findings_.push_back({.rule = std::string(remark.rule),
                       .severity = remark.severity,
                       .file = resolution_.file_name,
                       .line = line,
                       .key = std::move(key),
                       .message = remark.message,
                       .mend = remark.mend});
}

void LintContext::add(const Remark& remark, const ConfigValue::Entry& entry,
                      std::string_view section_name) {
  const std::string prefix = section_name.empty() ? "" : std::string(section_name) + ".";
  add(remark, entry.line, prefix + entry.key);
}

}  // namespace shardscope::accelerate
