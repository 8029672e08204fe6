// Words of a shell script, with what its variables stand for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardscope::megatron {

struct ShellWord {
  std::string text;  ///< variables replaced where the script sets them
  int line = 1;
  bool operator==(const ShellWord&) const = default;
};

/// All words, those inside quotes and arrays by themselves, comments left out. Assignments are
/// followed: NAME=8 makes $NAME, ${NAME} and ${NAME:-4} "8" from there on; ${NAME:-4} is "4" where
/// NAME is not set; $((A * 2)) is computed in whole numbers. What cannot be known stays as it is.
/// The words of an assignment's value stand in its place: "ARGS=--bf16" is the word "--bf16".
std::vector<ShellWord> shell_words(std::string_view text);

}  // namespace shardscope::megatron
