// Words of a shell script, with what its variables stand for.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::megatron {

struct ShellWord {
  std::string text;  ///< variables replaced where the script sets them
  int line = 1;
  std::string unsure;   ///< a variable in it that the script has set to several values; empty: none
  bool begins = false;  ///< a command, an array or the value of an assignment
  bool operator==(const ShellWord&) const = default;
};

struct ShellScript {
  std::vector<ShellWord> words;
  std::map<std::string, std::string, std::less<>> variables;  ///< as the script leaves them
  bool passes_arguments = false;  ///< "$@" or $* stands in it: its caller may add words
};

/// All words, those inside quotes and arrays by themselves, comments left out. Assignments are
/// followed: NAME=8 makes $NAME, ${NAME} and ${NAME:-4} "8" from there on; ${NAME:-4} is "4" where
/// NAME is not set; $((A * 2)) is computed in whole numbers. What cannot be known stays as it is,
/// a command's output as "$(...)". The words of an assignment's value stand in its place:
/// "ARGS=--bf16" is the word "--bf16". Of branches the last one counts. Throws Error naming `file`
/// where the text has more than 4 MiB, or expands to more words or bytes than a command line can
/// have.
ShellScript read_shell(std::string_view text, const std::string& file);

}  // namespace shardscope::megatron
