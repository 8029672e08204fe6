// What a machine is like, and what is wrong with it: pure functions of its facts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/machine_facts.h"
#include "core/config/values/finding.h"

namespace shardscope {

struct MachineFinding {
  Severity severity = Severity::note;
  std::string what;
  std::string fix;
  bool operator==(const MachineFinding&) const = default;
};

/// The built-in hardware profile that a machine is most like, and in what it differs.
struct ProfileLikeness {
  std::string profile;  ///< "h100_sxm"
  std::vector<std::string> differs;
  bool operator==(const ProfileLikeness&) const = default;
};

/// None where there is no GPU, or no profile of a GPU of its name.
std::optional<ProfileLikeness> profile_like(const MachineFacts& facts);

/// What keeps the machine from training, or makes it slower than its parts, the worst first.
std::vector<MachineFinding> machine_findings(const MachineFacts& facts);

}  // namespace shardscope
