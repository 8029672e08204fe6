// Findings about one file, in the making.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/config/values/config_value.h"
#include "core/config/values/finding.h"

namespace shardscope {

/// The parts of a finding that a rule knows.
struct Remark {
  std::string rule;
  Severity severity = Severity::warning;
  std::string message;
  std::string mend;
};

/// A file of nothing but unknown keys is told of so many of them.
inline constexpr int most_unknown_keys = 100;

/// Findings of one file; sorted by line in the end.
class FindingList {
 public:
  explicit FindingList(std::string file) : file_(std::move(file)) {}

  /// `key` is the key path, `line` 0 for the file as a whole.
  void add(Remark remark, int line, std::string key) {
    findings_.push_back({.rule = std::move(remark.rule),
                         .severity = remark.severity,
                         .file = file_,
                         .line = line,
                         .key = std::move(key),
                         .message = std::move(remark.message),
                         .mend = std::move(remark.mend)});
  }
  /// About a member of the section at the key path `section`; "" is the top level.
  void add(Remark remark, const ConfigValue::Entry& entry, const std::string& section) {
    add(std::move(remark), entry.line, section.empty() ? entry.key : section + "." + entry.key);
  }

  std::vector<Finding> take() {
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding& a, const Finding& b) { return a.line < b.line; });
    return std::move(findings_);
  }

 private:
  std::string file_;
  std::vector<Finding> findings_;
};

/// The member of a dict; null where it is missing or `dict` is none.
inline const ConfigValue::Entry* entry_of(const ConfigValue& dict, std::string_view key) {
  if (!dict.is_dict()) return nullptr;
  const std::vector<ConfigValue::Entry>& entries = dict.entries();
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace shardscope
