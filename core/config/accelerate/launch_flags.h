// The command line of `accelerate launch`: its flags, their defaults, and what a command line says.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/values/config_value.h"

namespace shardscope::accelerate {

enum class FlagKind : std::uint8_t {
  text,
  integer,
  number,
  set_true,
  set_false,
  append,            ///< may stand several times
  any_text_is_true,  ///< type=bool: "false" is true as well
  truth,             ///< 1 for "true", "yes"...; 0 for "false"...
  truths,            ///< several of them with commas
};

struct Flag {
  std::string_view name;  ///< without the two dashes
  FlagKind kind = FlagKind::text;
  std::string_view stored_as;  ///< attribute of the arguments; empty: the name
  char letter = 0;             ///< "-m"; 0: none
  ConfigValue fallback;        ///< the parser's default
  std::string_view choices;    ///< "no|fp16"; empty: any

  std::string_view attribute() const { return stored_as.empty() ? name : stored_as; }
};

/// Every flag. Source: accelerate 1.15.0 commands/launch.py, launch_command_parser.
const std::vector<Flag>& launch_flags();

/// Arguments as argparse leaves them: a dict of attributes, and which were typed.
struct LaunchArguments {
  ConfigValue values = ConfigValue::dict();
  std::set<std::string, std::less<>> given;

  /// The attribute; None where there is none.
  ConfigValue operator[](std::string_view name) const { return values.get(name); }
};

/// What `accelerate launch WORDS` reads from its command line; the first word that is no flag is
/// the training script, everything behind it belongs to the script. Raises SystemExit where
/// argparse exits.
LaunchArguments parse_launch(const std::vector<std::string>& words);

}  // namespace shardscope::accelerate
