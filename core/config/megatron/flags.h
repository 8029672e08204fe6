// The flags of a command line by name.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/config/megatron/shell_words.h"

namespace shardscope::megatron {

/// A flag as it stands in the text, with the words behind it up to the next one.
struct Flag {
  std::string name;     ///< without dashes in front; dashes stand for underscores
  std::string written;  ///< the same with underscores as they stand
  std::vector<std::string> values;
  int line = 1;        ///< of several with the same value the first
  std::string unsure;  ///< a variable in its first value that the script sets to several values
  bool is_followed = false;  ///< by its first value in the same command
  bool has_several = false;  ///< other first words stood behind it before
};
using Flags = std::map<std::string, Flag, std::less<>>;

Flags flags_of(const ShellScript& script);

}  // namespace shardscope::megatron
