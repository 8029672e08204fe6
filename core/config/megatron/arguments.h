// The command line of Megatron-LM, in a shell script or a file of arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/megatron/settings.h"

namespace shardscope::megatron {

/// What a command line says, at the defaults of Megatron-LM where it says nothing.
struct Arguments {
  Settings settings;       ///< `world` is 1 where it is not said
  bool has_model = false;  ///< it says layers, hidden size and heads
  bool has_length = false, has_world = false;
  std::vector<std::string> assumed;  ///< defaults that were taken, and what is not modelled
  std::vector<std::string> unknown;  ///< flags that are no arguments known here, with their lines
};

/// Whether the text is such a command line: it has --tensor-model-parallel-size, or the sizes of a
/// model as Megatron-LM writes them.
bool is_megatron(std::string_view text);

/// All flags of the text count, wherever they stand: in a command, in a variable, in an array. The
/// last one of a name decides. $NAME, ${NAME:-VALUE} and $((...)) are replaced where the script
/// says NAME. Defaults and the meaning of flags: Megatron-LM d98e8a6,
/// megatron/training/arguments.py, core/transformer/transformer_config.py. Throws Error with file,
/// line and flag for a value that is none, and for what is not predicted.
Arguments read_arguments(std::string_view text, const std::string& file);

}  // namespace shardscope::megatron
