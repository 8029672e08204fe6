// What lint has to say about one place of a configuration file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope {

enum class Severity : std::uint8_t { note, warning, error };

/// "note", "warning", "error".
constexpr std::string_view name_of(Severity severity) {
  constexpr std::string_view names[] = {"note", "warning", "error"};
  return names[static_cast<int>(severity)];
}

/// One difference between what a file seems to say and what the real tools make of it.
struct Finding {
  std::string rule;  ///< "ignored-key"
  Severity severity = Severity::warning;
  std::string file;
  int line = 0;         ///< 1-based; 0: of the file as a whole
  std::string key;      ///< "fsdp_config.fsdp_backward_prefetch_policy"; may be empty
  std::string message;  ///< what really happens
  std::string mend;     ///< what to write instead

  bool operator==(const Finding&) const = default;
};

}  // namespace shardscope
