// The rules of lint, by subject, and what they see.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/accelerate/resolve.h"
#include "core/config/values/finding.h"

namespace shardscope::accelerate {

/// The parts of a finding that a rule knows.
struct Remark {
  std::string_view rule;
  Severity severity = Severity::warning;
  std::string message;
  std::string mend;
};

/// What rules look at, and where they put what they find.
class LintContext {
 public:
  LintContext(const Resolution& resolution, std::string_view text, const PreparedModel* model)
      : resolution_(resolution), text_(text), model_(model) {}

  const Resolution& resolution() const { return resolution_; }
  const ConfigValue& file() const { return *resolution_.file.value; }
  const PreparedModel* model() const { return model_; }
  /// The plugin that the workers make; null where it fails or there is none.
  const FsdpPlugin* plugin() const;
  bool has_type(std::string_view distributed_type) const {
    return file().get("distributed_type").is(distributed_type);
  }

  /// A member of a section, by its name with the prefix, however the file spells it; null: not
  /// given.
  const ConfigValue::Entry* member(std::string_view section, std::string_view name) const;
  const ConfigValue::Entry* fsdp(std::string_view name) const {
    return member("fsdp_config", name);
  }
  const ConfigValue::Entry* top(std::string_view name) const;
  /// The section where it is a mapping; null else.
  const ConfigValue* section(std::string_view name) const;
  /// The text of a line, 1-based.
  std::string_view line_text(int line) const;

  void add(const Remark& remark, int line, std::string key);
  void add(const Remark& remark, const ConfigValue::Entry& entry, std::string_view section = {});

  std::vector<Finding> take() { return std::move(findings_); }
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  const Resolution& resolution_;
  std::string_view text_;
  const PreparedModel* model_;
  std::vector<Finding> findings_;
};

/// A key with its section's prefix, as accelerate adds it: "fsdp_" in fsdp_config.
std::string with_prefix(std::string_view section, std::string_view key);

// Each adds what it finds. The file is a mapping.
void lint_keys(LintContext& context);       ///< unknown, twice, ignored, without prefix, null
void lint_scalars(LintContext& context);    ///< YAML 1.1's surprises
void lint_fsdp(LintContext& context);       ///< versions, wrapping, state dicts
void lint_sections(LintContext& context);   ///< sections and flags that have no effect
void lint_deepspeed(LintContext& context);  ///< the section deepspeed_config

}  // namespace shardscope::accelerate
