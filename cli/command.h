// One verb's command line: what it takes, its help, and what it does. CLI11 stays behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace shardscope {

/// How an option looks in --help: "--seq T   tokens of a sequence".
struct OptionHelp {
  std::string value;  ///< "T", "FILE", "fp32|bf16"
  std::string text;
};

/// The command line of `shardscope <verb>`. Variables that are bound here must live until `run` has
/// returned; a value that is not given leaves its variable as it is. Options stand twice at most
/// once, and what cannot be read throws Error whose `where` is the option.
class Command {
 public:
  Command(std::string_view verb, std::string_view summary);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  /// Options that are declared from here on stand under this heading.
  void heading(std::string_view text);
  void option(std::string_view name, std::optional<std::string>& value, const OptionHelp& help);
  void option(std::string_view name, std::optional<std::int64_t>& value, const OptionHelp& help);
  void option(std::string_view name, std::optional<double>& value, const OptionHelp& help);
  /// Takes a value or none; without one it becomes empty.
  void optional_value(std::string_view name, std::optional<std::string>& value,
                      const OptionHelp& help);
  /// Takes one value or more.
  void options(std::string_view name, std::vector<std::string>& values, const OptionHelp& help);
  void flag(std::string_view name, bool& value, std::string_view text);
  void positional(std::string_view name, std::optional<std::string>& value, std::string_view text);
  void positionals(std::string_view name, std::vector<std::string>& values, std::string_view text);
  /// Everything that follows the verb goes to another program as it stands, unless it asks for
  /// help.
  void pass_on(std::string_view name, std::vector<std::string>& values, std::string_view text);
  /// What follows "--" goes to another program as it stands; it must be there.
  void command_line(std::vector<std::string>& words, std::string_view text);
  /// Where this option is given, of the others declared so far only `with` may be.
  void alone(std::string_view name, const std::vector<std::string>& with);
  /// An option that docs/cli.md promises and this commit has not: using it throws Error with this
  /// way out.
  void not_yet(std::string_view name, std::string_view what, std::string_view way_out);
  /// A word that people try, though another option does it: using it throws Error with this way
  /// out. --help does not list it.
  void elsewhere(std::string_view name, std::string_view what, std::string_view way_out);
  /// Command lines for the end of --help, each with what it shows: {"shardscope model gpt2",
  /// "..."}.
  void examples(const std::vector<std::pair<std::string, std::string>>& lines);
  /// An option that takes one value at this commit; another throws Error.
  void fixed(std::string_view name, std::string_view only, const OptionHelp& help);
  /// What the verb does once everything is bound.
  void action(std::function<ExitCode()> action);

  /// Parses `arguments` (what follows the verb) and acts. Prints the help and returns `done` where
  /// it is asked for.
  ExitCode run(const std::vector<std::string>& arguments);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardscope
